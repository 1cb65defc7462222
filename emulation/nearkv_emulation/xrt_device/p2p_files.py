# SPDX-License-Identifier: Apache-2.0
"""The files behind P2P buffers: where they lie, that they can be mapped there, and that they go."""

from __future__ import annotations

import mmap
import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from nearkv_emulation.xrt_device.model import MemoryFault


@dataclass(frozen=True)
class P2pFile:
    """An open file; `close` leaves it in place for the host."""

    path: str
    fd: int

    def close(self) -> None:
        os.close(self.fd)


class P2pFiles:
    """A folder of its own below the first of `places` that can take the files. A context manager: the folder goes."""

    def __init__(self, places: Sequence[Path]) -> None:
        self._places = places
        self._folder: Path | None = None
        self._files: dict[int, Path] = {}
        self._made = 0

    def __enter__(self) -> P2pFiles:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def make(self, address: int, nbytes: int) -> P2pFile:
        """A file of zeroes. Raises MemoryFault where no place has room for it."""
        folder = self._folder or self._choose()
        self._folder = folder
        self._require_room(folder, nbytes)
        self._made += 1
        path = folder / f"{address:x}-{self._made}"
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        self._files[address] = path
        os.ftruncate(fd, nbytes)
        return P2pFile(str(path), fd)

    def remove(self, address: int) -> None:
        self._files.pop(address).unlink(missing_ok=True)

    def close(self) -> None:
        for address in tuple(self._files):
            self.remove(address)
        if self._folder is not None:
            self._folder.rmdir()
            self._folder = None

    def _choose(self) -> Path:
        reasons = []
        for place in self._places:
            folder = None
            try:
                folder = Path(tempfile.mkdtemp(prefix="nearkv-p2p-", dir=place))
                _require_exec(folder)
            except OSError as error:
                if folder is not None:
                    folder.rmdir()
                reasons.append(f"{place}: {error.strerror or error}")
            else:
                return folder
        raise MemoryFault("no folder takes the files of P2P buffers: " + "; ".join(reasons))

    def _require_room(self, folder: Path, nbytes: int) -> None:
        """Files are sparse: what the others have not filled yet counts too, since a full file system ends a process
        in the middle of a memory access."""
        stats = os.statvfs(folder)
        free = stats.f_bavail * stats.f_frsize
        for path in self._files.values():
            status = path.stat()
            free -= max(0, status.st_size - status.st_blocks * 512)
        if nbytes > free:
            raise MemoryFault(f"{folder.parent} has room for {max(0, free)} bytes of P2P buffers; {nbytes} are wanted")


def _require_exec(folder: Path) -> None:
    """The host's library maps the files as executable too, so a file system mounted `noexec` is of no use."""
    with tempfile.TemporaryFile(dir=folder) as file:
        file.truncate(mmap.PAGESIZE)
        protection = mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC
        mmap.mmap(file.fileno(), mmap.PAGESIZE, mmap.MAP_SHARED, protection).close()
