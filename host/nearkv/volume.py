# SPDX-License-Identifier: Apache-2.0
"""One card's folder: data files and index, and who may have them. Gives out space and moves pages; knows no token.

Space is given out in runs of slots (`ModelLayout.slot_nbytes`). What is in use is known from the index alone, so space
of sequences without a name, and of writes that no index row followed, is free again after a restart.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

from nearkv_driver.errors import StorageError
from nearkv_driver.pagestore import PageFile
from nearkv_driver.syscalls import Syscalls
from nearkv_driver.transport import Bytes

from nearkv.locked_folder import LockedFolder
from nearkv.runs import RunAllocator
from nearkv.volume_claims import claims
from nearkv.volume_errors import QuotaExceeded, VolumeDamaged
from nearkv.volume_files import check_regular
from nearkv.volume_identity import VolumeIdentity, sync_folder, write_identity
from nearkv.volume_index import VolumeIndex
from nearkv.volume_records import Place
from nearkv.volume_upgrade import open_index

_FILE_NBYTES = 1 << 30
_GROW_NBYTES = 64 << 20
# Data files leave so much of the file system: to give space back, the index has to write first.
_LEAVE_NBYTES = 256 << 10


@dataclass
class _DataFile:
    pages: PageFile
    runs: RunAllocator
    found_nbytes: int
    dirty: bool = False


class Volume:
    """Open until `close`. One process at a time: VolumeBusy names the other.

    `write`, `read_into`, `sync` and the index may be used by several threads; giving out space is the owner's alone.
    """

    def __init__(
        self,
        folder: Path,
        identity: VolumeIdentity,
        slot_nbytes: int,
        *,
        direct: bool = True,
        syscalls: Syscalls | None = None,
        quota_nbytes: int | None = None,
    ) -> None:
        """Opens or creates. VolumeMismatch before any write when the folder was made for something else.

        quota_nbytes: data files never grow beyond it; what they have already stays usable.
        """
        self.folder, self.direct, self._syscalls = folder, direct, syscalls
        self._slot_nbytes, self._quota_nbytes = slot_nbytes, quota_nbytes
        # Asked when a run of so many slots cannot be had: True when it has given some back, so that another try may do.
        self.make_room: Callable[[int], bool] | None = None
        self._file_slots = max(_FILE_NBYTES // slot_nbytes, identity.kv_heads)
        self._files: list[_DataFile] = []
        self._torn: dict[Place, int] = {}
        self._index: VolumeIndex | None = None
        self._index_write_nbytes: int | None = 0  # once it is closed
        self._syncing = threading.Lock()
        self._locked = LockedFolder(folder, identity)
        try:
            self._open_files()
            found = self._locked.found
            if found is None:
                if not self._files:  # a file system that refuses direct I/O shows before anything is kept
                    self._add_file()
                write_identity(folder, identity)
            self._index = open_index(folder, found, identity, self._reserve_known)
        except BaseException:
            self._close(forget=not self._files)
            raise

    @property
    def index(self) -> VolumeIndex:
        if self._index is None:
            raise StorageError("the volume is closed", path=str(self.folder))
        return self._index

    @property
    def io(self) -> str:
        """How pages move now: "direct", or "buffered" (asked for, or refused by the file system later)."""
        return "direct" if all(f.pages.io == "direct" for f in self._files) else "buffered"

    @property
    def direct_refusals(self) -> int:
        """Files that were opened direct and go on buffered."""
        return sum(f.pages.direct_refusals for f in self._files)

    @property
    def peer_refused_nbytes(self) -> int:
        """Bytes that a drive could not write into card memory itself and that went through the host's."""
        return sum(f.pages.peer.nbytes for f in self._files)

    @property
    def read_nbytes(self) -> int:
        return sum(f.pages.read_nbytes for f in self._files)

    @property
    def write_nbytes(self) -> int:
        return sum(f.pages.write_nbytes for f in self._files)

    @property
    def index_write_nbytes(self) -> int | None:
        """Bytes written to the index and its log, after `close` those of closing too; None where it is not known."""
        return self._index_write_nbytes if self._index is None else self._index.write_nbytes

    @property
    def free_nbytes(self) -> int:
        """Preallocated and not in use."""
        return sum(f.runs.free_slots for f in self._files) * self._slot_nbytes

    @property
    def used_nbytes(self) -> int:
        return sum(f.runs.slots - f.runs.free_slots for f in self._files) * self._slot_nbytes

    def take(self, count: int) -> Place:
        """A run of `count` slots; files grow as needed. StorageError names file and free space when they cannot."""
        while True:
            try:
                return self._take(count)
            except StorageError as error:
                full = isinstance(error, QuotaExceeded) or error.no_room
                if not full or self.make_room is None or not self.make_room(count):
                    raise

    def _take(self, count: int) -> Place:
        for i, file in enumerate(self._files):
            if (slot := file.runs.take(count)) is not None:
                return Place(i, slot)
        self._grow(count)
        slot = self._files[-1].runs.take(count)
        assert slot is not None
        return Place(len(self._files) - 1, slot)

    def hold(self, place: Place) -> None:
        """One more user of the run; each releases it once."""
        self._files[place.file].runs.hold(place.slot)

    def users(self, place: Place) -> int:
        return self._files[place.file].runs.users(place.slot)

    def release(self, place: Place, count: int) -> None:
        """One user less; the last one gives the space back."""
        self._files[place.file].runs.release(place.slot, count)
        self.mended(place)

    def write(self, place: Place, offset: int, data: Bytes) -> None:
        """Whole pages at `offset` of the run; durable after `sync`."""
        file = self._files[place.file]
        try:
            file.pages.write(data, place.slot * self._slot_nbytes + offset)
        finally:
            # Not before the write: a sync of another thread that began meanwhile need not cover it.
            file.dirty = True

    def read_into(self, place: Place, offset: int, view: memoryview) -> None:
        """Fills `view`, which may be card memory, with whole pages from `offset` of the run."""
        self._files[place.file].pages.read_into(view, place.slot * self._slot_nbytes + offset)

    def torn(self, place: Place) -> int | None:
        """Bytes of the run that its file still had when the volume was opened; None when nothing was missing."""
        return self._torn.get(place)

    def mended(self, place: Place) -> None:
        """Whoever uses the run knows by now what was missing."""
        self._torn.pop(place, None)

    def path(self, place: Place) -> Path:
        return self._path(place.file)

    def sync(self) -> None:
        """Everything written is on flash when this returns."""
        with self._syncing:
            for file in self._files:
                if file.dirty:
                    file.dirty = False
                    try:
                        file.pages.sync()
                    except BaseException:
                        file.dirty = True
                        raise

    def close(self) -> None:
        """Releases files and lock; may be called again. In a forked process this does nothing: index and lock are its
        parent's."""
        if self._locked.here:
            self._close(forget=False)

    def _close(self, *, forget: bool) -> None:
        with ExitStack() as closing:  # the lock goes last, and whatever fails before
            closing.callback(self._locked.close, forget=forget)
            closing.callback(self._close_index)
            for file in self._files:
                closing.callback(file.pages.close)

    def _close_index(self) -> None:
        if self._index:
            self._index.close()
            self._index_write_nbytes = self._index.write_nbytes
            self._index = None

    def _path(self, number: int) -> Path:
        return self.folder / f"data-{number:06d}.pages"

    def _open_files(self) -> None:
        while (path := self._path(len(self._files))).exists():
            check_regular(path)
            pages = PageFile.open(path, create=False, direct=self.direct, syscalls=self._syscalls)
            found = pages.size
            slots = -(-found // self._slot_nbytes)
            self._files.append(_DataFile(pages, RunAllocator(slots), found))
            if found < slots * self._slot_nbytes:
                pages.grow(slots * self._slot_nbytes)

    def _add_file(self) -> None:
        path = self._path(len(self._files))
        pages = PageFile.open(path, create=True, direct=self.direct, syscalls=self._syscalls)
        try:
            sync_folder(self.folder)
        except BaseException:  # nothing may come to lie in a file that a power cut can take
            pages.close()
            with suppress(OSError):
                path.unlink()
            raise
        self._files.append(_DataFile(pages, RunAllocator(), 0))

    def _grow(self, count: int) -> None:
        if not self._files or self._files[-1].runs.slots + count > self._file_slots:
            self._add_file()
        file = self._files[-1]
        most = self._file_slots - file.runs.slots
        step = min(most, max(count, min(file.runs.slots, _GROW_NBYTES // self._slot_nbytes)))
        if self._quota_nbytes is not None:
            left = self._quota_nbytes // self._slot_nbytes - sum(f.runs.slots for f in self._files)
            if left < count:
                path, needed = self._path(len(self._files) - 1), count * self._slot_nbytes
                free = self.free_nbytes + max(0, left) * self._slot_nbytes
                raise QuotaExceeded(path, needed=needed, free=free, quota=self._quota_nbytes)
            step = min(step, left)
        for slots in (step, count):
            try:
                file.pages.grow((file.runs.slots + slots) * self._slot_nbytes, leave_nbytes=_LEAVE_NBYTES)
            except StorageError:
                if slots == count:
                    raise
            else:
                file.runs.grow(slots)
                return

    def _reserve_known(self, index: VolumeIndex) -> None:
        for claim in claims(index, self.folder):
            if claim.shared:
                self.hold(claim.place)
            else:
                self._reserve(claim.place, claim.slots)

    def _reserve(self, place: Place, count: int) -> None:
        """The index names this run of slots; files that a crash left shorter grow again."""
        if place.file >= len(self._files):
            raise VolumeDamaged("the index names this file, which is missing", path=str(self._path(place.file)))
        file, end = self._files[place.file], place.slot + count
        runs = file.runs
        if end > self._file_slots:
            raise VolumeDamaged(
                f"the index names slot {place.slot}, a file has {self._file_slots}", path=str(self.path(place))
            )
        if end > runs.slots:
            file.pages.grow(end * self._slot_nbytes)
            runs.grow(end - runs.slots)
        if file.found_nbytes < end * self._slot_nbytes:
            self._torn[place] = max(0, file.found_nbytes - place.slot * self._slot_nbytes)
        try:
            runs.reserve(place.slot, count)
        except ValueError as error:
            raise VolumeDamaged(f"two sequences claim the same pages: {error}", path=str(self.folder)) from error
