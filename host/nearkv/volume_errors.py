# SPDX-License-Identifier: Apache-2.0
"""What can be wrong with a volume as a whole. Failed reads and writes of its files are the driver's StorageError."""

from __future__ import annotations

from pathlib import Path

from nearkv_driver.errors import StorageError

from nearkv.errors import UserError

# A sequence's name, the first of its tokens that is not stored, and the end of these.
Lost = tuple[str, int, int]


class VolumeMismatch(UserError):
    """The volume was made for something else; `what`, `wanted` and `found` name both sides, `advice` what to do.
    Nothing was written."""

    def __init__(
        self, path: str, what: str, *, wanted: object, found: object, advice: str = "use another folder"
    ) -> None:
        super().__init__(f"{path}: the volume holds {what} = {found}, this store has {wanted}; {advice}")
        self.path, self.what, self.wanted, self.found = path, what, wanted, found


class VolumeNewer(VolumeMismatch):
    """A later version wrote the volume."""

    def __init__(self, path: str, what: str, *, wanted: object, found: object) -> None:
        super().__init__(path, what, wanted=wanted, found=found, advice="a later version of nearkv made and reads it")


class VolumeOutdated(VolumeMismatch):
    """An older version wrote the volume; it is read once it is upgraded, as everything that opens it to write does."""

    def __init__(self, path: str, what: str, *, wanted: object, found: object) -> None:
        advice = (
            "nearkv generate with its cards upgrades it, as do nearkv sessions fork, import, rm and verify --repair"
        )
        super().__init__(path, what, wanted=wanted, found=found, advice=advice)


class VolumeBusy(StorageError):
    """Another process (or another store in this one) has the volume open; `owner` is its process id, 0 if unknown."""

    def __init__(self, path: str, owner: int) -> None:
        super().__init__(f"the volume is in use by process {owner or '(unknown)'}", path=path)
        self.owner = owner


class VolumeDamaged(StorageError):
    """The volume's own files contradict each other or cannot be read as what they are."""


class SequenceIncomplete(VolumeDamaged):
    """Only some of a named sequence's KV heads are on the volumes: a crash fell between two cards. Nothing of it can be
    used; `KVStore.delete` removes it."""


class QuotaExceeded(StorageError):
    """The volume may not grow as much as is needed; `free` bytes are left, perhaps not in one piece."""

    def __init__(self, path: Path, *, needed: int, free: int, quota: int) -> None:
        super().__init__(
            f"the volume's quota of {quota} bytes is used up: {needed} bytes needed in one piece, {free} free; remove "
            "sessions, or raise quota= or add evict=lru in the card's URL",
            path=str(path),
            nbytes=needed,
        )
        self.needed, self.free, self.quota = needed, free, quota


class PageMismatch(StorageError):
    """A page read back by the host differs from its checksum."""


class NotStored(StorageError):
    """Tokens that are not on the volumes though they should be: `lost` tells which, per sequence.

    They are still in memory while the store is open, and `flush` may be called again.
    """

    def __init__(self, message: str, *, path: str, lost: tuple[Lost, ...], errno_name: str = "") -> None:
        super().__init__(message, path=path, errno_name=errno_name)
        self.lost = lost
