# SPDX-License-Identifier: Apache-2.0
"""Volumes and processes: one owner at a time, an owner that is killed, a file system that is full."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from nearkv.kvstore import KVStore
from nearkv.volume_errors import VolumeBusy

from tests.support.namespaces import run_with_mounts
from tests.support.stores import layout, urls
from tests.support.volume_process import rows

ROOT = Path(__file__).parents[2]


class Owner:
    """Another process with a store in `folder`."""

    def __init__(self, folder: Path, command: str) -> None:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.volume_process", str(folder), command],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.line() == "open"

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def kill(self) -> list[str]:
        """SIGKILL; the lines that it had written."""
        self.process.kill()
        out, _ = self.process.communicate()
        assert self.process.returncode == -signal.SIGKILL
        return str(out).splitlines()


@pytest.fixture
def owners() -> Iterator[list[Owner]]:
    found: list[Owner] = []
    yield found
    for owner in found:
        owner.process.kill()
        owner.process.communicate()


def test_a_second_process_is_told_who_has_the_volume_and_gets_it_after_a_kill(
    tmp_path: Path, owners: list[Owner]
) -> None:
    owner = Owner(tmp_path, "hold")
    owners.append(owner)
    for _ in range(2):
        with pytest.raises(VolumeBusy, match=f"process {owner.process.pid}") as caught:
            KVStore.open(layout(), urls(2, tmp_path))
        assert caught.value.owner == owner.process.pid
    owner.kill()
    with KVStore.open(layout(), urls(2, tmp_path)) as store:
        assert store.names() == ()
        assert (tmp_path / "card0" / "lock").read_text().strip() == str(os.getpid())


@pytest.mark.parametrize("flushes", [1, 3, 8])
def test_after_a_kill_everything_that_flush_acknowledged_is_there(
    tmp_path: Path, owners: list[Owner], flushes: int
) -> None:
    owner = Owner(tmp_path, "grow")
    owners.append(owner)
    lines = [owner.line() for _ in range(flushes)] + owner.kill()
    acknowledged = int([line for line in lines if line.startswith("flushed ")][-1].split()[1])
    with KVStore.open(layout(), urls(2, tmp_path)) as store:
        sequence = store.open_sequence("a")
        length = store.length(sequence)
        assert length >= acknowledged >= 9 * flushes
        _, k, v = rows(0, length)
        for layer in range(2):
            for got, want in zip(store.read(layer, sequence), (k[0], v[0]), strict=True):
                np.testing.assert_array_equal(got, want)
        q, k, v = rows(length, 1)
        store.attend(0, [sequence], q, k, v, scale=0.125)


FULL = """
import sys
from pathlib import Path
from nearkv.kvstore import KVStore
from nearkv_driver.errors import StorageError
from tests.support.stores import Mirror, layout, urls

folder = Path(sys.argv[1])
ballast = folder / "ballast"
ballast.write_bytes(bytes(6 << 20))
cards = [url + "&io=buffered" for url in urls(1, folder)]
shape = layout(query_heads=4, kv_heads=4, head_size=128)  # 4096 bytes per token
with KVStore.open(shape, cards) as store:
    mirror = Mirror(store)
    a = mirror.add("a")
    mirror.append([a], 40)
    store.flush()
    full = None
    for _ in range(200):
        before = [store.length(a, layer) for layer in (0, 1)]
        try:
            mirror.append([a], 128)
        except StorageError as error:
            full = error
            break
    assert full is not None, "never full"
    assert "data-000000.pages" in str(full) and " free" in str(full), full
    length = store.length(a)
    assert [store.length(a, layer) for layer in (0, 1)] == before, "the failed call stored something"
    # Token by token into what room is left, until a spill fails.
    try:
        for _ in range(400):
            mirror.step([a])
    except StorageError as error:
        full = error
    else:
        raise AssertionError("never full while decoding")
    assert " free" in str(full), full
    mirror.query([a])
    mirror.check_rows(a)
    ballast.unlink()
    store.flush()
    tokens = store.length(a)
    mirror.step([a])
    mirror.check_rows(a)
    store.flush()
    print("tokens", store.length(a))
with KVStore.open(shape, cards) as store:
    mirror.store = store
    b = store.open_sequence("a")
    mirror.check_rows(b)
    assert store.length(b) == tokens + 1
assert sorted(p.name for p in folder.iterdir()) == ["card0"], list(folder.iterdir())
assert all(p.stat().st_size for p in (folder / "card0").glob("data-*")), "an empty data file"
print("done")
"""


def test_a_full_file_system_loses_no_token_and_flush_works_once_there_is_room(tmp_path: Path) -> None:
    """8 MiB of tmpfs of our own."""
    told = run_with_mounts(tmp_path, 'mount -t tmpfs -o size=8m tmpfs "$0"', FULL)
    assert told.splitlines()[-1] == "done"


def test_a_forked_process_owns_nothing_of_the_store(tmp_path: Path) -> None:
    """The child is refused by name, and its close leaves the parent's folders, lock and rows alone."""
    with KVStore.open(layout(), urls(2)) as store:
        folders = [card.volume.folder for card in store._cards]
        sequence = store.add_sequence()
        for layer in range(2):
            store.append(layer, [sequence], *rows(0, 20)[1:])
        told = tmp_path / "told"
        child = os.fork()
        if child == 0:
            lines = []
            for call in (store.add_sequence, store.flush, lambda: store.read(0, sequence)):
                try:
                    call()
                except Exception as error:
                    lines.append(f"{type(error).__name__}: {error}")
            store.close()
            told.write_text("\n".join(lines))
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        lines = told.read_text().splitlines()
        assert len(lines) == 3
        assert all(f"UserError: this store was opened by process {os.getpid()}" in line for line in lines)
        assert all(folder.is_dir() for folder in folders)
        np.testing.assert_array_equal(store.read(1, sequence)[0], rows(0, 20)[1][0])


def test_a_closed_volume_is_free_though_a_forked_process_lives_on(tmp_path: Path) -> None:
    """As the workers of a pool do, which inherit the lock's file."""
    ends = os.pipe()
    with KVStore.open(layout(), urls(1, tmp_path)):
        child = os.fork()
        if child == 0:
            os.read(ends[0], 1)
            os._exit(0)
    try:
        with KVStore.open(layout(), urls(1, tmp_path)) as again:
            assert again.names() == ()
    finally:
        os.write(ends[1], b"!")
        os.waitpid(child, 0)


def test_a_store_that_was_dropped_gives_its_volumes_back(tmp_path: Path) -> None:
    stores = [KVStore.open(layout(), urls(1, tmp_path))]
    with pytest.warns(ResourceWarning, match="dropped without close"):
        stores.clear()
    with KVStore.open(layout(), urls(1, tmp_path)) as again:
        assert again.names() == ()
