# SPDX-License-Identifier: Apache-2.0
"""A session as one file, in the safetensors format: its journal and, as far as they are stored, K and V of each layer.

The file is read as something a stranger made: every name, shape and value is checked. Each array has a checksum among
the facts, for a file that went through other hands and media.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from nearkv_driver.checksum import crc32c
from nearkv_driver.errors import StorageError
from numpy.typing import NDArray

from nearkv.errors import UserError
from nearkv.kvstore import KVStore
from nearkv.layout import ModelLayout
from nearkv.models.tensors import TensorFile, save_tensors
from nearkv.session import frames
from nearkv.session.folder import SEQUENCE_PREFIX, Entry, check_label
from nearkv.session.journal_reading import doubtful, pack_records, parse_journal, read_bytes
from nearkv.session.quota import require_room
from nearkv.session.record_payloads import MARK, decode
from nearkv.session.recorded_model import foreign
from nearkv.session.records import Crop, Header, JournalInvalid, Record
from nearkv.session.sequences import undone
from nearkv.session.state import SessionState, replay
from nearkv.session.store_folders import StoreFolders
from nearkv.volume_errors import PageMismatch

FORMAT = "nearkv-session"
VERSION = "2"
# The first version has no checksums; it is read as it is.
_UNSEALED = "1"
_SEAL = "crc32c."
_EXPORT_TRIES = 5
_FACTS = ("model", "layers", "kv_heads", "head_size", "dtype")

OnLayer = Callable[[int], None]


def export_session(folders: StoreFolders, name: str, tenant: str, path: Path, on_layer: OnLayer | None = None) -> int:
    """Writes the file, which must not exist; tokens whose K and V it holds. All of them are in memory meanwhile.

    PageMismatch for a page that is not what it was.
    """
    if os.path.lexists(path):
        raise UserError(f"{path} exists; give another file or remove it")
    for _ in range(_EXPORT_TRIES):
        told = _snapshot(folders, name, tenant, on_layer)
        if told is not None:
            tokens, tensors = told
            facts = {"format": FORMAT, "version": VERSION, "tokens": str(tokens), **_facts(folders.layout)}
            facts |= {_SEAL + name: _checksum(array) for name, array in tensors.items()}
            save_tensors(tensors, path, facts)
            return tokens
    where = str(folders.sessions.path_of(name, tenant))
    raise StorageError(f"session {name!r} was cropped or moved each time it was read; try again", path=where)


def _snapshot(
    folders: StoreFolders, name: str, tenant: str, on_layer: OnLayer | None
) -> tuple[int, dict[str, NDArray[Any]]] | None:
    """(tokens whose K and V are there, arrays); None where another process crops or removes the session meanwhile, so
    that journal and rows may not belong together."""
    layout, path = folders.layout, folders.sessions.known(name, tenant)
    data = read_bytes(path)
    found, records = parse_journal(path, data)
    summary = folders.summary_of(Entry(path, found))
    # With records lost at the journal's end, one of them perhaps a crop, rows of unknown tokens may be of others.
    unsure = doubtful(found.torn_nbytes) and None in folders.held(summary.session)
    tokens = 0 if unsure else summary.stored_tokens
    tensors: dict[str, NDArray[Any]] = {"journal": np.frombuffer(pack_records(records), np.uint8)}
    for layer in range(layout.layers) if tokens else ():
        try:
            rows = folders.rows(summary.session, layer)[:, :, :tokens]
        except PageMismatch:
            if folders.verify(summary.session):
                raise
            return None  # the page was given back since it was looked up
        if rows.shape[2] < tokens:
            return None
        tensors[f"kv.{layer}"] = np.ascontiguousarray(rows)
        if on_layer is not None:
            on_layer(layer)
    after = read_bytes(path)
    whole = len(data) - found.torn_nbytes
    if after[:whole] != data[:whole] or (found.torn_nbytes and after != data):
        return None
    # Pages of tokens that stay are never written again, so what only grew since is the same up to here.
    cropped = any(isinstance(record, Crop) for record in parse_journal(path, after)[1][len(records) :])
    return None if cropped else (tokens, tensors)


class SessionFile:
    """An exported session, opened and checked, K and V apart, which are checked as they are read. A context manager."""

    def __init__(self, path: Path) -> None:
        """UserError that says what is wrong with the file."""
        self.path, self._file = path, TensorFile(path)
        try:
            self._read(self._file.facts)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> SessionFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._file.close()

    def rows(self, layer: int, layout: ModelLayout) -> NDArray[np.float16]:
        """[2, kv_heads, tokens, head_size], all finite."""
        rows: NDArray[np.float16] = self._array(f"kv.{layer}")
        wanted = (2, layout.kv_heads, self.tokens, layout.head_size)
        if rows.dtype != np.float16 or rows.shape != wanted:
            raise UserError(
                f"{self.path}: kv.{layer} is {rows.dtype} {list(rows.shape)}; float16 {list(wanted)} is expected"
            )
        if not np.isfinite(rows).all():
            raise UserError(f"{self.path}: kv.{layer} holds Inf or NaN; stored values are finite")
        return rows

    def check(self, layout: ModelLayout) -> None:
        """UserError unless the session is of the store's model and shape."""
        for name, wanted in _facts(layout).items():
            if self._facts[name] != wanted:
                raise UserError(f"{self.path}: {name} is {self._facts[name]!r}, the store has {wanted!r}")
        header = self.state.header
        if header is not None and header.model != layout.model:
            raise UserError(f"{self.path}: its journal is of model {header.model!r}, the store has {layout.model!r}")

    def _read(self, facts: dict[str, str]) -> None:
        if facts.get("format") != FORMAT:
            raise UserError(f"{self.path} is not an exported session")
        if facts.get("version") not in (VERSION, _UNSEALED):
            raise UserError(
                f"{self.path}: version {facts.get('version')!r}; this program reads {VERSION!r} and {_UNSEALED!r}"
            )
        missing = [name for name in (*_FACTS, "tokens") if name not in facts]
        if missing:
            raise UserError(f"{self.path} lacks {missing[0]!r}")
        self._facts = facts
        self.records, self.state = self._journal()
        layers = self._number("layers", 1 << 16)
        self.tokens = self._number("tokens", len(self.state.tokens))
        if self.tokens > self.state.cached:
            raise UserError(
                f"{self.path}: K and V of {self.tokens} tokens, the journal accounts for {self.state.cached}"
            )
        wanted = {"journal", *(f"kv.{layer}" for layer in range(layers) if self.tokens)}
        names = self._file.names()
        if names != wanted:
            odd = sorted(names ^ wanted)[0]
            raise UserError(f"{self.path}: {odd!r} is {'missing' if odd in wanted else 'not part of a session'}")

    def _journal(self) -> tuple[list[Record], SessionState]:
        if "journal" not in self._file.names():
            raise UserError(f"{self.path}: 'journal' is missing")
        data = self._array("journal")
        if data.dtype != np.uint8 or data.ndim != 1:
            raise UserError(f"{self.path}: the journal is {data.dtype} of {data.ndim} dimensions; bytes are expected")
        scan = frames.scan(data.tobytes())
        try:
            records = [decode(frame) for frame in scan.frames if frame.kind != MARK]
            state = replay(records)
        except JournalInvalid as error:
            raise UserError(f"{self.path}: not the journal of a session: {error}") from error
        if scan.damaged or state.header is None:
            raise UserError(f"{self.path}: the journal is damaged at byte {scan.end}")
        return records, state

    def _array(self, name: str) -> NDArray[Any]:
        array = self._file.tensor(name)
        if self._facts["version"] != _UNSEALED and (seal := self._facts.get(_SEAL + name)) != _checksum(array):
            raise UserError(f"{self.path}: {name} differs from its checksum" + ("" if seal else ", which is missing"))
        return array

    def _number(self, name: str, most: int) -> int:
        text = self._facts[name]
        number = int(text) if text.isascii() and text.isdigit() and len(text) < 10 else -1
        if not 0 <= number <= most:
            raise UserError(f"{self.path}: {name} is {text!r}; a whole number up to {most} is expected")
        return number


def check_import(folders: StoreFolders, file: SessionFile, name: str | None, tenant: str) -> Header:
    """The header of the session that `import_session` would make; UserError where it may not be made."""
    file.check(folders.layout)
    header = file.state.header
    assert header is not None
    wanted = check_label("session name", header.name if name is None else name)
    new = folders.sessions.new_header(wanted, header.model, tenant)
    # No session of the tenant's own begins with K and V that only the file says to be of these tokens.
    return replace(new, weights=foreign(header.weights, new.session))


def import_session(
    store: KVStore,
    folders: StoreFolders,
    file: SessionFile,
    name: str | None,
    tenant: str,
    on_layer: OnLayer | None = None,
) -> Header:
    """A new session of the store, known as `name` (None: as in the file). What fails leaves nothing."""
    new = check_import(folders, file, name, tenant)
    if file.tokens:
        require_room(store, folders.sessions, tenant, file.tokens)
    with undone(store, new.session):
        if file.tokens:
            sequence = store.add_sequence(SEQUENCE_PREFIX + new.session)
            store.note(sequence, file.state.tokens[: file.tokens])
            try:
                for layer in range(store.layout.layers):
                    k, v = file.rows(layer, store.layout)
                    store.append(layer, [sequence], k[None], v[None])
                    if on_layer is not None:
                        on_layer(layer)
            except BaseException:
                store.free(sequence)
                raise
            store.free(sequence)
        folders.sessions.enter(new, file.records[1:])
    return new


def _checksum(array: NDArray[Any]) -> str:
    return f"{crc32c(array):08x}"


def _facts(layout: ModelLayout) -> dict[str, str]:
    return {name: str(getattr(layout, name)) for name in _FACTS}
