# SPDX-License-Identifier: Apache-2.0
"""Whether a card's volume folder takes direct I/O and has room. The probe writes one file and removes it.

A folder that does not exist yet is judged by the nearest one above it; it is not created.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from nearkv_driver.errors import DriverError
from nearkv_driver.registry import CardUrl

from nearkv.doctor_check import Check
from nearkv.errors import one_line
from nearkv.report import human_bytes, short_url
from nearkv.volume_folders import nearest_folder, probe, volume_folder

_SPACE_NBYTES = 256 << 20  # one full context of the default model is 8192 tokens of 23,040 B; the index comes on top


def check_volume(url: CardUrl) -> list[Check]:
    """Direct I/O and free space of the folder in `ssd`, else of the folder for temporary files."""
    name = short_url(url.text)
    folder = nearest_folder(volume_folder(url) or Path(tempfile.gettempdir()))
    return [check_direct(name, folder, needed=url.options.get("io") != "buffered"), check_space(name, folder)]


def check_direct(name: str, folder: Path, *, needed: bool = True) -> Check:
    """Writes one page with O_DIRECT, reads it back with O_DIRECT and compares."""
    title = f"{name} direct I/O"
    try:
        probe(folder, direct=True)
    except (DriverError, OSError) as error:
        fix = "put the volume on ext4 or XFS with ssd=FOLDER, or add io=buffered to the URL"
        return Check(title, False, one_line(error), fix, optional=not needed)
    return Check(title, True, f"works in {folder}", optional=not needed)


def check_space(name: str, folder: Path) -> Check:
    """Whether there is room below `folder` for one full context of the default model."""
    free = shutil.disk_usage(folder).free
    ok = free >= _SPACE_NBYTES
    fix = "" if ok else f"free some space, or name a folder with {human_bytes(_SPACE_NBYTES)} or more with ssd=FOLDER"
    return Check(f"{name} free space", ok, f"{human_bytes(free)} in {folder}", fix)
