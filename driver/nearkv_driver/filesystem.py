# SPDX-License-Identifier: Apache-2.0
"""Which file system a path lies on, for messages. Reads /proc; changes nothing."""

from __future__ import annotations

import os
from pathlib import Path


def filesystem_of(path: str | Path, mounts: str = "/proc/self/mountinfo") -> str:
    """The type of the file system (`ext4`, `tmpfs`) that holds `path` or its folder, or "unknown"."""
    place = Path(path)
    try:
        device = os.stat(place if place.exists() else place.parent).st_dev
        wanted = f"{os.major(device)}:{os.minor(device)}"
        for line in Path(mounts).read_text().splitlines():
            mount, _, rest = line.partition(" - ")
            if mount.split()[2] == wanted:
                return rest.split()[0]
    except (OSError, IndexError):
        pass
    return "unknown"
