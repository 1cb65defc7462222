# SPDX-License-Identifier: Apache-2.0
"""The system's count of bytes to and from devices, and systems that do not count."""

from __future__ import annotations

from pathlib import Path

import pytest
from nearkv import device_io
from nearkv.device_io import DeviceBytes, device_bytes, since

TOLD = "rchar: 9\nwchar: 8\nsyscr: 7\nsyscw: 6\nread_bytes: 4096\nwrite_bytes: 8192\ncancelled_write_bytes: 0\n"


def test_what_was_moved_since(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counters = tmp_path / "io"
    monkeypatch.setattr(device_io, "_COUNTERS", counters)
    counters.write_text(TOLD)
    before = device_bytes()
    assert before == DeviceBytes(4096, 8192)
    counters.write_text(TOLD.replace("4096", "16384"))
    assert since(before) == DeviceBytes(12288, 0)
    assert since(None) is None


@pytest.mark.parametrize("text", [None, "", "read_bytes: 1\n", "read_bytes: x\nwrite_bytes: 1\n", "no colon\n"])
def test_a_system_that_does_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str | None) -> None:
    counters = tmp_path / "io"
    monkeypatch.setattr(device_io, "_COUNTERS", counters)
    if text is not None:
        counters.write_text(text)
    assert device_bytes() is None
    assert since(DeviceBytes(0, 0)) is None
