# SPDX-License-Identifier: Apache-2.0
"""Takes a volume's folder for this process: made if there is none, locked, and looked at for what it was made for.
Opens none of the volume's data.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from nearkv_driver.errors import StorageError

from nearkv.ownership import Owner
from nearkv.volume_identity import VolumeIdentity, drop_unfinished, read_identity, sync_folder
from nearkv.volume_lock import release_lock, take_lock


class LockedFolder:
    """Until `close`. `found`: the identity of the volume that is there, None for a folder that has none yet."""

    def __init__(self, folder: Path, wanted: VolumeIdentity) -> None:
        """VolumeMismatch before any write for a volume of something else; VolumeBusy names another process that has it.
        What a crash left before it was whole is gone afterwards."""
        self._folder, self._lock, self._owner = folder, -1, Owner("volume")
        self.found = _known(folder, wanted)
        if not folder.parent.is_dir():
            raise StorageError(f"its parent folder {folder.parent} does not exist", path=str(folder))
        self._made = not folder.is_dir()
        try:
            folder.mkdir(mode=0o700, exist_ok=True)
            if self._made:
                sync_folder(folder.parent)
        except OSError as error:
            raise StorageError(f"cannot be created: {error.strerror}", path=str(folder)) from error
        self._first = not (folder / "lock").exists()
        try:
            self._lock = take_lock(folder / "lock")
            self.found = _known(folder, wanted)  # another process may have made the volume since, for something else
            drop_unfinished(folder)
            if self.found is not None:
                sync_folder(folder)  # a process may have been killed between a new name and its sync
        except BaseException:
            self.close(forget=self.found is None)
            raise

    @property
    def here(self) -> bool:
        """Whether this process took it. One that was forked since has its parent's lock, and would give that back."""
        return self._owner.here

    def close(self, *, forget: bool = False) -> None:
        """Gives the lock back; may be called again. `forget`: nothing of a volume has come to be, so a folder in which
        none was is left as it was. Does nothing in a forked process."""
        if not self.here:
            return
        if self._lock >= 0:
            if forget and self._first and self.found is None:
                with suppress(OSError):
                    (self._folder / "lock").unlink()  # under the lock, so that nobody else can have it
            release_lock(self._lock)
            self._lock = -1
        if forget and self._made:
            self._made = False
            with suppress(OSError):
                self._folder.rmdir()


def _known(folder: Path, wanted: VolumeIdentity) -> VolumeIdentity | None:
    """The volume's identity, checked."""
    found = read_identity(folder)
    if found is not None:
        wanted.check(found, folder)
    return found
