# SPDX-License-Identifier: Apache-2.0
"""Reads every page that a volume's index names and compares it with its checksum. Changes nothing and needs no card.

It may run while another process writes the volume: a page that the index names is never written again. Pages that
were given back or cut off meanwhile may be, so one that differs counts only if the index still names it with the same
checksum afterwards.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np
from nearkv_driver.errors import StorageError
from nearkv_driver.pagestore import PageFile, aligned_buffer, page_crcs
from nearkv_driver.regmap import PAGE_BYTES
from numpy.typing import NDArray

from nearkv.pages import GroupMap
from nearkv.requests import Requests
from nearkv.volume_errors import PageMismatch, VolumeDamaged
from nearkv.volume_files import check_regular
from nearkv.volume_identity import read_identity
from nearkv.volume_index import VolumeIndex
from nearkv.volume_records import Place, SequenceRecord

# One request: enough that the drive is not kept busy with small ones.
_READ_NBYTES = 1 << 20

# Requests of each thread between two reports of what was read; at the end of them all wait for the last one.
_AT_ONCE = 8

OnRead = Callable[[int], None]

# A bad page, and where its checksum stands in its run.
_Bad = tuple["BadPage", tuple[int, ...]]


@dataclass(frozen=True)
class BadPage:
    """A page that differs from its checksum, or (`error`) could not be read. `token` is the first that it holds."""

    path: str
    sequence: str
    layer: int
    head: int
    is_value: bool
    token: int
    error: str = ""

    def __str__(self) -> str:
        kind = "V" if self.is_value else "K"
        what = self.error or "differs from its checksum"
        return f"{self.path}: layer {self.layer}, KV head {self.head}, {kind}, page of token {self.token}: {what}"


@dataclass(frozen=True)
class Scrubbed:
    """What was read, and what is bad, by sequence and then by token."""

    nbytes: int
    bad: tuple[BadPage, ...]


@dataclass(frozen=True)
class _Run:
    """Neighbouring pages, and what their checksums are: `crcs` [layers, heads, 2, pages], from `layer` and `token` on.

    Of each (layer, head, K or V) `stride` pages lie in the volume, of which the first ones count.
    """

    place: Place
    tag: bytes
    offset: int
    layer: int
    token: int
    crcs: NDArray[np.uint32]
    stride: int

    @property
    def where(self) -> tuple[Place, bytes, int]:
        return self.place, self.tag, self.offset

    @property
    def nbytes(self) -> int:
        layers, heads, kinds, _ = self.crcs.shape
        return int(layers * heads * kinds) * self.stride * PAGE_BYTES


class Scrubber:
    """One volume's folder, opened for reading. A context manager."""

    def __init__(self, folder: Path, *, direct: bool = True) -> None:
        """VolumeDamaged or StorageError where the folder holds no volume that can be read."""
        identity = read_identity(folder)
        if identity is None:
            raise StorageError("holds no volume", path=str(folder))
        self.folder, self._direct = folder, direct
        self.identity = identity
        self.layout = identity.layout
        self._index = VolumeIndex(folder / "index.sqlite", writable=False)
        self._files: dict[int, PageFile] = {}
        self._opening = threading.Lock()
        self._held = threading.local()
        self._requests = Requests(f"scrub of {folder}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._requests.close()
        for file in self._files.values():
            file.close()
        self._index.close()

    def names(self) -> list[str]:
        return self._index.names()

    def record(self, name: str) -> SequenceRecord | None:
        return self._index.find(name)

    def nbytes(self, name: str) -> int:
        """What `scrub` will read."""
        record = self._index.find(name)
        return sum(run.nbytes for run in self._runs(record)) if record else 0

    def scrub(self, name: str, on_read: OnRead | None = None) -> Scrubbed:
        """Every page of the sequence; KeyError for a name that the index does not have."""
        record = self._index.find(name)
        if record is None:
            raise KeyError(f"no sequence is named {name!r}")
        runs = list(self._runs(record))
        bad: list[tuple[_Run, _Bad]] = []
        step = _AT_ONCE * self._requests.depth
        for first in range(0, len(runs), step):
            some = runs[first : first + step]
            found: list[list[_Bad]] = [[] for _ in some]
            self._requests.run([partial(self._note, record, *work) for work in zip(some, found, strict=True)])
            for run, pages in zip(some, found, strict=True):
                bad += [(run, page) for page in pages]
                if on_read is not None:
                    on_read(run.nbytes)
        now = self._index.find(name) if bad else None
        named = {run.where: run.crcs for run in self._runs(now)} if now is not None else {}
        still = [page for run, (page, at) in bad if _same(run.crcs, named.get(run.where), at)]
        still.sort(key=lambda page: (page.token, page.layer, page.head, page.is_value))
        return Scrubbed(sum(run.nbytes for run in runs), tuple(still))

    def rows(self, record: SequenceRecord, layer: int) -> NDArray[np.float16]:
        """K and V of a layer's tokens on this volume, [2, heads, tokens, head_size]; PageMismatch for a bad page."""
        layout, heads = self.layout, len(record.heads)
        out = np.zeros((heads, 2, record.tokens, layout.d_pad), np.float16)
        for run in self._runs(record, layer):
            bad: list[_Bad] = []
            view = self._check(record, run, bad)
            if bad:
                raise PageMismatch(str(bad[0][0]), path=str(self.folder))
            inside = layer - run.layer
            got = np.frombuffer(view, np.float16).reshape(run.crcs.shape[0], heads, 2, -1, layout.d_pad)[inside]
            count = min(got.shape[2], record.tokens - run.token)
            out[:, :, run.token : run.token + count] = got[:, :, :count]
        return out.transpose(1, 0, 2, 3)[..., : layout.head_size]

    def _runs(self, record: SequenceRecord, only: int | None = None) -> Iterator[_Run]:
        """All pages, or at least those of layer `only`."""
        layout, heads = self.layout, len(record.heads)
        shape = (-1, layout.layers, heads, layout.unit_pages, 2)
        blobs = b"".join(spill.crcs for spill in record.spills)
        if len(blobs) != record.stored // layout.unit_tokens * layout.unit_crcs_nbytes(heads):
            raise VolumeDamaged(f"sequence {record.name!r}: checksums do not fit the layout", path=str(self.folder))
        units = np.frombuffer(blobs, "<u4").reshape(shape)
        at_once = max(1, _READ_NBYTES // (heads * layout.extent_nbytes))
        for extent, (place, tag) in enumerate(zip(record.groups, record.tags, strict=True)):
            here = units[extent * layout.extent_units : (extent + 1) * layout.extent_units]
            # [layers, heads, 2, pages of all units in order of tokens]
            crcs = here.transpose(1, 2, 4, 0, 3).reshape(layout.layers, heads, 2, -1)
            for layer in range(0, layout.layers, at_once) if only is None else (only,):
                offset = GroupMap(layout, heads).offset(layer, 0)
                some = crcs[layer : layer + (at_once if only is None else 1)]
                yield _Run(place, tag, offset, layer, extent * layout.extent_tokens, some, layout.extent_pages)
        if record.tail and record.tail.tokens:
            tail = record.tail
            crcs = np.frombuffer(tail.crcs, "<u4")
            if crcs.size != layout.layers * heads * 2 * layout.unit_pages:
                raise VolumeDamaged(f"sequence {record.name!r}: checksums do not fit the layout", path=str(self.folder))
            crcs = crcs.reshape(layout.layers, heads, 2, layout.unit_pages)
            yield _Run(tail.place, b"", tail.part * crcs.size * PAGE_BYTES, 0, tail.first, crcs, layout.unit_pages)

    def _note(self, record: SequenceRecord, run: _Run, bad: list[_Bad]) -> None:
        self._check(record, run, bad)

    def _check(self, record: SequenceRecord, run: _Run, bad: list[_Bad]) -> memoryview:
        """The pages of a run, until the thread's next call; those that are bad go to `bad`."""
        file = self._file(run.place)
        view = self._memory(run.nbytes)
        error = ""
        try:
            file.read_into(view, run.place.slot * self.layout.slot_nbytes + run.offset)
        except StorageError as failed:
            error = str(failed)
        layers, heads, kinds, pages = run.crcs.shape
        found = page_crcs(view).reshape(layers, heads, kinds, run.stride)[..., :pages]
        wrong = np.ones_like(found, bool) if error else found != run.crcs
        page_tokens = self.layout.unit_tokens / self.layout.unit_pages
        for at in np.argwhere(wrong):
            layer, head, kind, page = at
            token = run.token + int(page * page_tokens)
            where = run.layer + int(layer), record.heads[head], bool(kind)
            bad.append((BadPage(file.path, record.name, *where, token, error), tuple(map(int, at))))
        return view

    def _memory(self, nbytes: int) -> memoryview:
        """The calling thread's, the same at every call: fresh memory costs about as much as the checksums of it."""
        held: memoryview | None = getattr(self._held, "view", None)
        if held is None or len(held) < nbytes:
            held = self._held.view = aligned_buffer(nbytes)
        return held[:nbytes]

    def _file(self, place: Place) -> PageFile:
        with self._opening:
            if place.file not in self._files:
                path = self.folder / f"data-{place.file:06d}.pages"
                check_regular(path)
                self._files[place.file] = PageFile.open(path, create=False, direct=self._direct, writable=False)
            return self._files[place.file]


def _same(then: NDArray[np.uint32], now: NDArray[np.uint32] | None, at: tuple[int, ...]) -> bool:
    """Whether the page is still named, with the checksum that it had."""
    inside = now is not None and all(i < n for i, n in zip(at, now.shape, strict=True))
    return now is not None and inside and bool(now[at] == then[at])
