# SPDX-License-Identifier: Apache-2.0
"""What a store leaves behind: no thread and no file after `close`, and after an error nothing that keeps it from going,
with its cards and volumes, when the last name of it goes.
"""

from __future__ import annotations

import gc
import os
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from nearkv.kvstore import KVStore
from nearkv_driver.errors import DriverError, StorageError
from nearkv_driver.syscalls import SystemCalls
from nearkv_driver.work_threads import WorkThreads
from nearkv_emulation.storage_faults import Fails, FaultySyscalls

from tests.support.stores import Mirror, layout, urls

HELD = 300


@pytest.fixture
def no_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def _wrong_argument(mirror: Mirror, sequence: int, faults: FaultySyscalls) -> None:
    mirror.store.crop(sequence, HELD + 1)


def _wrong_rows(mirror: Mirror, sequence: int, faults: FaultySyscalls) -> None:
    row = np.zeros((1, 1, 1, 1), np.float16)
    mirror.store.append(0, [sequence], row, row)


def _kernel(mirror: Mirror, sequence: int, faults: FaultySyscalls) -> None:
    def fail(*_: object) -> None:
        raise ValueError("planned")

    transport: Any = mirror.store._cards[1].device._transport
    transport._kernel.run = fail
    mirror.query([sequence])


def _read(mirror: Mirror, sequence: int, faults: FaultySyscalls) -> None:
    faults.faults = [Fails("preadv", last=None)]
    mirror.query([sequence])


def _read_back(mirror: Mirror, sequence: int, faults: FaultySyscalls) -> None:
    faults.faults = [Fails("preadv", last=None)]
    mirror.store.read(0, sequence)


def _write(mirror: Mirror, sequence: int, faults: FaultySyscalls) -> None:
    faults.faults = [Fails("pwritev", last=None)]
    mirror.append([sequence], 200)


@pytest.mark.usefixtures("no_collector")
@pytest.mark.filterwarnings("ignore:a KVStore was dropped:ResourceWarning")
@pytest.mark.parametrize(
    ("trouble", "error"),
    [
        (_wrong_argument, ValueError),
        (_wrong_rows, ValueError),
        (_kernel, DriverError),
        (_read, StorageError),
        (_read_back, StorageError),
        (_write, StorageError),
    ],
)
def test_an_error_keeps_no_store_alive(
    trouble: Callable[[Mirror, int, FaultySyscalls], None], error: type[Exception], tmp_path: Path
) -> None:
    faults = FaultySyscalls(SystemCalls())
    shape = layout(layers=1)
    cards = urls(2, tmp_path, options="&resident=0&staging=256K")
    store = KVStore.open(shape, cards, syscalls=faults)
    mirror = Mirror(store)
    sequence = mirror.add("a")
    mirror.append([sequence], HELD)
    failed = False
    try:  # pytest.raises would keep the error
        trouble(mirror, sequence, faults)
    except error:
        failed = True
    assert failed
    gone = weakref.ref(store)
    del mirror, store
    assert gone() is None
    KVStore.open(shape, cards).close()  # the volumes are free


@pytest.mark.filterwarnings("ignore:a KVStore was dropped:ResourceWarning")
def test_ctrl_c_before_the_close_has_begun_keeps_no_volume(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    store = KVStore.open(layout(layers=1), urls(1, tmp_path))
    with monkeypatch.context() as patched:
        patched.setattr(WorkThreads, "put", interrupted)
        try:
            store.close()
        except KeyboardInterrupt:
            del store
    KVStore.open(layout(layers=1), urls(1, tmp_path)).close()


def test_many_stores_leave_no_threads_and_no_files(tmp_path: Path) -> None:
    def used(number: int) -> None:
        options = "&resident=0&staging=256K" if number % 2 else ""
        with KVStore.open(layout(layers=1), urls(2, tmp_path, options=options)) as store:
            mirror = Mirror(store)
            sequence = mirror.add(f"s{number}")
            mirror.append([sequence], 140)
            mirror.query([sequence])
            with suppress(ValueError):
                store.crop(sequence, 141)

    def left() -> int:
        for thread in set(threading.enumerate()) - before:
            thread.join(60)  # it was told to end
        return len(os.listdir("/proc/self/fd"))

    before = set(threading.enumerate())
    for number in range(2):
        used(number)
    files = left()
    for number in range(2, 12):
        used(number)
    assert left() <= files  # what tests before left may go meanwhile
    assert set(threading.enumerate()) <= before
