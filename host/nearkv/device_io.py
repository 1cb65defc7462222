# SPDX-License-Identifier: Apache-2.0
"""Bytes that this process has moved to and from devices, as Linux counts them: what a report's own figures are held
against. It counts nothing itself, and knows nothing of cards.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

_COUNTERS = Path("/proc/self/io")


@dataclass(frozen=True)
class DeviceBytes:
    """Of all files of the process, the model's own included. What the page cache answers is not in `read`; `written`
    counts pages that were made dirty, or went to the device at once."""

    read: int
    written: int

    def __sub__(self, before: DeviceBytes) -> DeviceBytes:
        return DeviceBytes(self.read - before.read, self.written - before.written)


def device_bytes() -> DeviceBytes | None:
    """Since the process began; None where the system does not tell."""
    try:
        told = dict(line.split(": ") for line in _COUNTERS.read_text(encoding="ascii").splitlines())
        return DeviceBytes(int(told["read_bytes"]), int(told["write_bytes"]))
    except (OSError, ValueError, KeyError):
        return None


def since(before: DeviceBytes | None) -> DeviceBytes | None:
    """What was moved after `before`."""
    now = device_bytes()
    return None if now is None or before is None else now - before
