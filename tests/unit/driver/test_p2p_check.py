# SPDX-License-Identifier: Apache-2.0
"""The way from the drive into the card is tried before it is trusted: off, all ones, wrong bytes, slow, refused."""

from __future__ import annotations

import errno
import itertools
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from nearkv_driver.errors import TransportUnavailable
from nearkv_driver.p2p_check import PathCheck, PathRates, check_path
from nearkv_driver.peer_errors import advice
from nearkv_driver.registry import open_transport
from nearkv_driver.syscalls import SystemCalls
from nearkv_driver.transport import Buffer, Transport

from tests.support.sysfs_trees import ENABLED, GIB
from tests.support.xrt_machines import Rig, rig


class Peer(SystemCalls):
    """What the first large read brings is what the test says; the probe of one page is spared."""

    def __init__(self, act: Callable[[memoryview], int | None]) -> None:
        self._act = act
        self._first = True

    def preadv(self, fd: int, buffer: memoryview, offset: int) -> int:
        got = super().preadv(fd, buffer, offset)
        if buffer.nbytes > 1 << 20 and self._first:  # the first large read goes to the card, the second to the host
            self._first = False
            return self._act(buffer) or got
        return got


def all_ones(buffer: memoryview) -> None:
    buffer[:] = b"\xff" * buffer.nbytes


def one_wrong_byte(buffer: memoryview) -> None:
    buffer[-1] ^= 1


def refuse(number: int) -> Callable[[memoryview], int]:
    def act(buffer: memoryview) -> int:
        raise OSError(number, os.strerror(number))

    return act


@pytest.fixture
def card() -> Transport:
    return open_transport("sw_emu:0?dram=16M&kernel=model")


def check(card: Transport, folder: Path, act: Callable[[memoryview], int | None], clock: object = None) -> PathCheck:
    more = {"clock": clock} if clock else {}
    alloc: Callable[[int, bool], Buffer] = lambda n, p2p: card.alloc(n, 0, p2p)  # noqa: E731
    found = check_path(alloc, folder, calls=Peer(act), **more)  # type: ignore[arg-type]
    assert list(folder.iterdir()) == []
    for _ in range(2):
        card.alloc(4 << 20, 0)  # nothing is left allocated
    return found


def test_a_good_path_has_rates(card: Transport, tmp_path: Path) -> None:
    found = check(card, tmp_path, lambda buffer: None)
    assert found.reason == ""
    assert found.rates is not None
    assert found.rates.p2p > 0 < found.rates.host


def test_all_ones_are_a_bar_that_cannot_be_reached(card: Transport, tmp_path: Path) -> None:
    found = check(card, tmp_path, all_ones)
    assert found.rates is None
    assert "all ones: its BAR cannot be reached" in found.reason
    assert "iommu=pt" in found.reason


def test_one_wrong_byte_is_seen(card: Transport, tmp_path: Path) -> None:
    assert "other bytes (page 1023)" in check(card, tmp_path, one_wrong_byte).reason


@pytest.mark.parametrize("number", [errno.EFAULT, errno.EREMOTEIO, errno.EIO, errno.EOPNOTSUPP])
def test_refusals_say_what_to_do(card: Transport, number: int, tmp_path: Path) -> None:
    found = check(card, tmp_path, refuse(number))
    assert errno.errorcode[number] in found.reason
    assert advice(errno.errorcode[number]) in found.reason
    assert "p2p=bounce" in found.reason


def test_slow_is_measured(card: Transport, tmp_path: Path) -> None:
    ticks = itertools.chain([0.0, 1.0, 1.0, 1.1])
    found = check(card, tmp_path, lambda buffer: None, lambda: next(ticks))
    assert found.rates is not None
    assert found.rates.slow
    assert str(found.rates) == "P2P 4 MB/s, through host memory 42 MB/s"
    assert not PathRates(1e9, 2e9).slow


def test_every_error_number_of_the_table_has_advice() -> None:
    for name in ("EINVAL", "EFAULT", "EIO", "EREMOTEIO", "EOPNOTSUPP", "EACCES", "EPERM"):
        assert len(advice(name)) > 40
    assert "bounce" in advice("ENOMEM")


# From the card's URL on: C40.


def opened(machine: Rig, act: Callable[[memoryview], int | None], more: str = "") -> Transport:
    return replace(machine, machine=replace(machine.machine, calls=Peer(act))).open(more)


def test_off_is_refused_or_goes_around(tmp_path: Path) -> None:
    machine = rig(tmp_path, config={**ENABLED, "bar": GIB // 4, "rbar": GIB // 4})
    card = machine.open()
    assert "P2P is disabled" in card.info().p2p_reason
    assert "--p2p enable" in card.info().p2p_reason
    with pytest.raises(TransportUnavailable, match="--p2p enable"):
        card.alloc(4096, 0, p2p=True)
    card.close()
    card = machine.open("&p2p=bounce")
    assert card.info().p2p_reason == "the card URL says p2p=bounce"
    card.close()


def test_all_ones_turn_p2p_off(tmp_path: Path) -> None:
    card = opened(rig(tmp_path), all_ones)
    assert not card.info().p2p
    assert "all ones" in card.info().p2p_reason
    assert "p2p=bounce" in card.info().p2p_reason
    card.close()


def test_a_slow_way_is_named_with_its_rates(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nearkv_driver.xrt.opening.check_path", lambda *a, **k: PathCheck("", PathRates(1e8, 1e9)))
    card = rig(tmp_path).open()
    assert card.info().p2p
    assert "P2P 100 MB/s, through host memory 1000 MB/s: p2p=bounce in the card URL is the faster way" in caplog.text
    card.close()


def test_a_volume_on_another_drive_is_refused(tmp_path: Path) -> None:
    machine = rig(tmp_path)
    link = next((tmp_path / "sys/dev/block").glob(f"{os.major(machine.ssd.stat().st_dev)}:*"))
    link.unlink()
    link.symlink_to((tmp_path / "sys/class/nvme/nvme1").resolve() / "nvme1n1")
    card = machine.open()
    assert "lies on nvme1" in card.info().p2p_reason
    card.close()
