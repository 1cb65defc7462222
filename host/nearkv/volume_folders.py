# SPDX-License-Identifier: Apache-2.0
"""Whether folders can hold volumes, seen before any card or volume is opened. A probe writes one file and removes it.

So a refusal leaves nothing behind, also where the first of several folders is good and the last is not.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from pathlib import Path

from nearkv_driver.errors import DirectIoUnavailable, DriverError
from nearkv_driver.pagestore import PageFile, aligned_buffer
from nearkv_driver.registry import CardUrl
from nearkv_driver.regmap import PAGE_BYTES

from nearkv.errors import UserError, one_line


def volume_folder(url: CardUrl) -> Path | None:
    """The folder that the URL names, absolute, `~` expanded; None where it names none."""
    text = url.option("ssd", "")
    try:
        return Path(text).expanduser().absolute() if text else None
    except RuntimeError as error:  # ~NAME without such a user
        raise UserError(f"card URL {url.text!r}: ssd={text}: {one_line(error)}") from error


def check_folders(urls: Iterable[CardUrl]) -> None:
    """UserError for the first URL whose folder cannot be made or written, or refuses the I/O that the URL asks for."""
    for url in urls:
        named = volume_folder(url)
        folder = named or Path(tempfile.gettempdir())
        if folder.exists() and not folder.is_dir():
            raise UserError(f"{folder}: the volume must be a folder, this is a file")
        if not folder.parent.is_dir():
            raise UserError(f"{folder}: the folder {folder.parent}, which should hold the volume, does not exist")
        direct = url.option("io", "direct") == "direct"
        try:
            probe(nearest_folder(folder), direct=direct)
        except DirectIoUnavailable as error:
            ways = "" if named else "set TMPDIR to such a folder, "
            raise UserError(
                f"{folder}: the file system ({error.filesystem}) refuses direct I/O; {ways}name a folder on ext4 or "
                f"XFS with ssd=FOLDER in the card's URL, or add io=buffered to it"
            ) from error
        except (DriverError, OSError) as error:
            raise UserError(f"{folder}: no volume can be written here: {one_line(error)}") from error


def probe(folder: Path, *, direct: bool) -> None:
    """Writes a page, reads it back and compares. DriverError or OSError when that does not work."""
    data = os.urandom(PAGE_BYTES)
    back = aligned_buffer(PAGE_BYTES)
    with (
        tempfile.TemporaryDirectory(prefix=".nearkv-probe-", dir=folder) as private,
        PageFile.open(Path(private) / "page", create=True, direct=direct) as file,
    ):
        file.grow(PAGE_BYTES)
        file.write(data, 0)
        file.sync()
        file.read_into(back, 0)
        if direct and file.io != "direct":
            raise OSError(f"{folder}: direct I/O was accepted at first and refused later")
    if bytes(back) != data:
        raise OSError(f"{folder}: what was read back is not what was written")


def nearest_folder(folder: Path) -> Path:
    """The folder, or the nearest one above it that exists."""
    folder = folder.absolute()
    while not folder.is_dir() and folder != folder.parent:
        folder = folder.parent
    return folder
