# SPDX-License-Identifier: Apache-2.0
"""Reads into memory that a drive cannot write."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from nearkv_driver.errors import StorageError
from nearkv_driver.pagestore import PageFile, aligned_buffer
from nearkv_driver.syscalls import SystemCalls

PAGE = 4096


class NoPeer(SystemCalls):
    """Refuses the memory `card`, and counts how often it was asked."""

    def __init__(self, number: int) -> None:
        self.number, self.asked = number, 0
        self.card = aligned_buffer(16 * PAGE)
        self.fails_everywhere = False

    def preadv(self, fd: int, buffer: memoryview, offset: int) -> int:
        if buffer.obj is self.card.obj or self.fails_everywhere:
            self.asked += 1
            raise OSError(self.number, os.strerror(self.number))
        return super().preadv(fd, buffer, offset)


def test_refused_memory_is_filled_through_the_host(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    calls = NoPeer(errno.EREMOTEIO)
    data = os.urandom(8 * PAGE)
    with PageFile.open(tmp_path / "data", create=True, syscalls=calls) as file:
        file.grow(8 * PAGE)
        file.write(data, 0)
        file.read_into(calls.card[: 8 * PAGE], 0)
        assert bytes(calls.card[: 8 * PAGE]) == data
        file.read_into(calls.card[: 2 * PAGE], 4 * PAGE)
        assert bytes(calls.card[: 2 * PAGE]) == data[4 * PAGE : 6 * PAGE]
        assert (file.peer.nbytes, file.peer.refusal, calls.asked) == (10 * PAGE, "EREMOTEIO", 1)
        assert file.io == "direct"
    assert len(caplog.records) == 1
    assert "same PCI switch" in caplog.text


def test_a_medium_that_fails_fails_still(tmp_path: Path) -> None:
    calls = NoPeer(errno.EIO)
    with PageFile.open(tmp_path / "data", create=True, syscalls=calls) as file:
        file.grow(PAGE)
        with pytest.raises(StorageError, match="EIO"):
            file.read_into(calls.card[:PAGE], 0)
        calls.number, calls.fails_everywhere = errno.EFAULT, True
        with pytest.raises(StorageError, match="EFAULT"):
            file.read_into(calls.card[:PAGE], 0)
        assert (file.peer.nbytes, file.peer.refusal) == (0, "")
