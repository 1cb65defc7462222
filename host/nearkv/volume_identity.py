# SPDX-License-Identifier: Apache-2.0
"""What a volume was made for: the checked content of its `volume.json`. Opens no data file and no index."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from nearkv_driver.errors import StorageError

from nearkv.layout import ModelLayout
from nearkv.volume_errors import VolumeDamaged, VolumeMismatch, VolumeNewer
from nearkv.volume_files import private, read_whole, unusable

FORMAT = 3
# Formats that opening a volume turns into this one.
OLDER_FORMATS = tuple(range(1, FORMAT))
FILE_NAME = "volume.json"
_NBYTES_MAX = 1 << 20


@dataclass(frozen=True)
class VolumeIdentity:
    """`card` is this volume's number among the `cards` of its store; `store` is the same on all of them, random."""

    model: str
    layers: int
    kv_heads: int
    head_size: int
    dtype: str
    card: int
    cards: int
    store: str = ""
    format: int = FORMAT

    @classmethod
    def of(cls, layout: ModelLayout, card: int, cards: int) -> VolumeIdentity:
        return cls(layout.model, layout.layers, layout.kv_heads, layout.head_size, layout.dtype, card, cards)

    @property
    def layout(self) -> ModelLayout:
        """Of the volume, which does not know how many query heads share a KV head."""
        return ModelLayout(self.model, self.layers, self.kv_heads, self.kv_heads, self.head_size, self.dtype)

    def check(self, found: VolumeIdentity, path: Path) -> None:
        """VolumeMismatch for the first field that differs, the format first; an empty `store` accepts any, and an older
        format is one that opening upgrades."""
        for name in ("format", *(f.name for f in fields(self) if f.name != "format")):
            wanted, there = getattr(self, name), getattr(found, name)
            if name == "format" and there in OLDER_FORMATS:
                continue
            if wanted != there and not (name == "store" and not wanted):
                raise VolumeMismatch(str(path), name, wanted=repr(wanted), found=repr(there))


def read_identity(folder: Path) -> VolumeIdentity | None:
    """None where there is no volume yet. VolumeNewer for one of a later format, VolumeDamaged for a file that is no
    identity."""
    path = folder / FILE_NAME
    try:
        data = read_whole(path, _NBYTES_MAX)
    except FileNotFoundError:
        return None
    try:
        values = json.loads(data)
        if isinstance(values, dict) and values.get("format") not in (FORMAT, *OLDER_FORMATS):
            there = values.get("format")
            kind = VolumeNewer if type(there) is int and there > FORMAT else VolumeMismatch
            raise kind(str(folder), "format", wanted=FORMAT, found=repr(there))
        return _sound(VolumeIdentity(**values))
    except VolumeMismatch:
        raise
    except (ValueError, RecursionError, TypeError) as error:
        raise VolumeDamaged(f"is not the identity of a volume: {error}", path=str(path)) from error


def _sound(identity: VolumeIdentity) -> VolumeIdentity:
    """TypeError or ValueError for values that no volume has."""
    for field in fields(identity):
        value = getattr(identity, field.name)
        if type(value).__name__ != field.type:
            raise TypeError(f"{field.name} = {value!r} is not of type {field.type}")
    if not 0 <= identity.card < identity.cards:
        raise ValueError(f"card = {identity.card} of {identity.cards} cards")
    if identity.kv_heads < 1:
        raise ValueError(f"kv_heads = {identity.kv_heads}")
    _ = identity.layout
    return identity


def drop_unfinished(folder: Path) -> None:
    """An identity that a crash left before it got its name is gone."""
    path = folder / f"{FILE_NAME}.new"
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise StorageError(f"cannot be removed: {error.strerror}", path=str(path)) from error


def write_identity(folder: Path, identity: VolumeIdentity) -> None:
    """Writes it whole or not at all: a new file, synced, then renamed."""
    path, new = folder / FILE_NAME, folder / f"{FILE_NAME}.new"
    try:
        with open(new, "w", opener=private) as file:
            json.dump(asdict(identity), file, indent=2)
            file.write("\n")
            file.flush()
            os.fsync(file.fileno())
        new.rename(path)
        sync_folder(folder)
    except OSError as error:
        raise StorageError(f"cannot be written: {error.strerror}", path=str(path)) from error


def sync_folder(folder: Path) -> None:
    """Makes names of new files durable; StorageError where that is not known."""
    try:
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
    except OSError as error:
        raise unusable("the names in it cannot be synced", folder, error.errno or 0) from error
