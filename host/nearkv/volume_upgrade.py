# SPDX-License-Identifier: Apache-2.0
"""Opens the index of a volume that is locked, and makes a volume of an older format one of this: the one place that
does. Moves no page.

Identity and index become what they will be together. A program that knows the older format alone must not open a newer
index, so the identity is written first; and it is written when nothing but a crash or a disk that fails or is full can
keep the index from following.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from nearkv_driver.errors import StorageError

from nearkv.volume_errors import VolumeDamaged
from nearkv.volume_identity import VolumeIdentity, read_identity, write_identity
from nearkv.volume_index import VolumeIndex

_log = logging.getLogger(__name__)


def open_index(
    folder: Path, found: VolumeIdentity | None, wanted: VolumeIdentity, check: Callable[[VolumeIndex], None]
) -> VolumeIndex:
    """`found` is the volume's identity, None for one that is being made, and fits `wanted` but for an older format.

    `check` raises for rows that cannot be used. Then, and wherever an upgrade fails before the identity is written, the
    volume stays of its format. Where it fails behind that, the next opening goes on; the error says which it is.
    """
    older = found if found is not None and found.format != wanted.format else None

    def ready(index: VolumeIndex) -> None:
        check(index)
        if older is not None:
            write_identity(folder, replace(older, format=wanted.format))

    try:
        index = VolumeIndex(folder / "index.sqlite", ready)
    except StorageError as error:
        if older is None:
            raise
        kind = VolumeDamaged if isinstance(error, VolumeDamaged) else StorageError
        text = f"the volume is of format {older.format} and cannot be upgraded: {error}"
        if _is_marked(folder, wanted):
            text = (
                f"the volume was of format {older.format}, and its upgrade to format {wanted.format} is not done; what "
                f"next opens it to write goes on with that: {error}"
            )
        raise kind(text, path=str(folder), errno_name=error.errno_name) from error
    before = index.upgraded_from or (older.format if older is not None else None)
    if before is not None:
        text = "%s: the volume was of format %d and is of format %d now; older versions of nearkv refuse it"
        _log.warning(text, folder, before, wanted.format)
    return index


def _is_marked(folder: Path, wanted: VolumeIdentity) -> bool:
    """Whether the identity is of the new format by now."""
    with suppress(StorageError):
        found = read_identity(folder)
        return found is not None and found.format == wanted.format
    return False
