# SPDX-License-Identifier: Apache-2.0
"""Where the journals of a store's sessions lie: the folder `sessions` of its first volume. Opens no cache.

A journal's file name is a digest of tenant and name, so no name leaves the folder, and names that a file system would
take for the same are different.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from nearkv_driver.errors import StorageError
from nearkv_driver.syscalls import Syscalls

from nearkv.errors import UserError
from nearkv.session.journal import Journal
from nearkv.session.journal_reading import Found, parse_journal, read_bytes, read_header, read_journal
from nearkv.session.records import Header, Record
from nearkv.volume_errors import VolumeDamaged
from nearkv.volume_files import private, read_whole
from nearkv.volume_identity import sync_folder

FOLDER = "sessions"
SUFFIX = ".journal"
NAME_NBYTES_MAX = 200
_SALT_NBYTES = 32
# A session's K and V are a sequence of the store with this and the session's id as its name.
SEQUENCE_PREFIX = "session:"
DEFAULT_TENANT = "default"


@dataclass(frozen=True)
class Entry:
    """One journal: what it holds, or why it cannot be read."""

    path: Path
    found: Found | None
    error: str = ""


def check_label(what: str, text: str) -> str:
    """A name of a session or tenant: one line of printable text, not too long, and the text as given."""
    if not isinstance(text, str):
        raise TypeError(f"the {what} is of type {type(text).__name__}; it must be a string")
    try:
        nbytes = len(text.encode())
    except UnicodeEncodeError as error:
        raise UserError(f"the {what} {text!r} is not UTF-8 text at character {error.start}") from error
    if not text.strip() or text != text.strip() or not text.isprintable():
        raise UserError(f"the {what} {text!r}: printable text without spaces at its ends is allowed")
    if nbytes > NAME_NBYTES_MAX:
        raise UserError(f"the {what} {text[:20]!r}... has {nbytes} bytes; {NAME_NBYTES_MAX} are allowed")
    return text


class SessionFolder:
    """`volume` is the folder of the store's first volume. Methods that change something need its lock."""

    def __init__(self, volume: Path, syscalls: Syscalls | None = None) -> None:
        self.path = volume / FOLDER
        self._syscalls = syscalls

    def path_of(self, name: str, tenant: str = DEFAULT_TENANT) -> Path:
        label = f"{check_label('tenant', tenant)}\n{check_label('session name', name)}"
        return self.path / (hashlib.sha256(label.encode()).hexdigest()[:32] + SUFFIX)

    def exists(self, name: str, tenant: str = DEFAULT_TENANT) -> bool:
        """Also where the journal is a link to one that is not there now: it must not be begun anew."""
        return os.path.lexists(self.path_of(name, tenant))

    def holds_any(self) -> bool:
        """Whether there is a session, of any tenant."""
        return bool(self._files(SUFFIX))

    def new_header(self, name: str, model: str, tenant: str = DEFAULT_TENANT) -> Header:
        """Of a session that is to be made; UserError when there is such a session."""
        if self.exists(name, tenant):
            raise UserError(f"there is a session {name!r} already; resume it, remove it or take another name")
        return Header(name, tenant, secrets.token_hex(8), model, _now())

    def create(
        self, name: str, model: str, *, tenant: str = DEFAULT_TENANT, every: int = 1, weights: str = ""
    ) -> tuple[Journal, Header]:
        """UserError when there is such a session."""
        header = replace(self.new_header(name, model, tenant), weights=weights)
        return self._create(header, (), every), header

    def enter(self, header: Header, records: Sequence[Record]) -> None:
        """A session with all these records, durable when this returns."""
        self._create(header, records, 0).close()

    def _create(self, header: Header, records: Sequence[Record], every: int) -> Journal:
        self._make()
        path = self.path_of(header.name, header.tenant)
        return Journal.create(path, header, records=records, every=every, syscalls=self._syscalls)

    def copy(self, header: Header, name: str, session: str) -> None:
        """A session that has every record of the one with `header`; durable when this returns."""
        source = self.known(header.name, header.tenant)
        copy = replace(self.new_header(name, header.model, header.tenant), session=session, weights=header.weights)
        self.enter(copy, parse_journal(source, read_bytes(source))[1][1:])

    def open(
        self, name: str, *, tenant: str = DEFAULT_TENANT, every: int = 1, accept_damage: bool = False
    ) -> tuple[Journal, Found]:
        """UserError that lists what there is when there is no such session."""
        path = self.known(name, tenant)
        return Journal.open(path, every=every, accept_damage=accept_damage, syscalls=self._syscalls)

    def read(self, name: str, tenant: str = DEFAULT_TENANT) -> Found:
        """Also while another process has the volume open."""
        return read_journal(self.known(name, tenant))

    def salt(self, tenant: str = DEFAULT_TENANT) -> bytes:
        """What keeps the tenant's keys from those of others; made when it is first asked for.

        VolumeDamaged for a file of another size: with an empty salt two tenants would have the same keys.
        """
        digest = hashlib.sha256(check_label("tenant", tenant).encode()).hexdigest()[:32]
        path = self.path / f"{digest}.salt"
        try:
            if not path.exists():
                self._make()
                new = path.with_suffix(".new")
                with open(new, "wb", opener=private) as file:
                    file.write(secrets.token_bytes(_SALT_NBYTES))
                    file.flush()
                    os.fsync(file.fileno())
                new.rename(path)
                sync_folder(self.path)
            salt = read_whole(path, 1 << 20)
        except OSError as error:
            raise StorageError(f"the tenant's salt: {error.strerror}", path=str(path)) from error
        if len(salt) != _SALT_NBYTES:
            text = f"the tenant's salt has {len(salt)} bytes, not {_SALT_NBYTES}; remove it, and new keys are made"
            raise VolumeDamaged(text, path=str(path))
        return salt

    def entries(self, tenant: str | None = None) -> Iterator[Entry]:
        """All journals, by name, damaged ones (whose tenant is not known) last. One that another process removes
        meanwhile is none."""
        found = [_entry(path) for path in self._files(SUFFIX)]
        entries = [entry for entry in found if entry.found is not None or os.path.lexists(entry.path)]
        mine = [e for e in entries if e.found is None or tenant in (None, _header(e.found).tenant)]
        yield from sorted(mine, key=lambda e: (e.found is None, _header(e.found).name if e.found else ""))

    def headers(self) -> list[Header]:
        """Of all journals; StorageError for the first one whose header cannot be read. Reads no more than that."""
        return [read_header(path) for path in self._files(SUFFIX)]

    def remove(self, name: str, tenant: str = DEFAULT_TENANT) -> Header | None:
        """The journal is gone, durably, when this returns; its K and V are the caller's to remove. None where it was
        too damaged to say which they are."""
        path = self.known(name, tenant)
        try:
            header = _header(read_journal(path, accept_damage=True))
        except VolumeDamaged:
            header = None
        self._unlink(path)
        return header

    def tidy(self) -> None:
        """Files that a crash left before they got their name are gone."""
        for path in self._files(".new"):
            self._unlink(path)

    def _files(self, suffix: str) -> list[Path]:
        """None where there is no folder yet. StorageError where there is one that cannot be read: what is in it must
        not be taken for nothing."""
        try:
            return sorted(self.path / name for name in os.listdir(self.path) if name.endswith(suffix))
        except OSError as error:
            if isinstance(error, FileNotFoundError) and not os.path.lexists(self.path):
                return []
            raise StorageError(f"cannot be read: {error.strerror}", path=str(self.path)) from error

    def _unlink(self, path: Path) -> None:
        try:
            path.unlink()
            sync_folder(self.path)
        except OSError as error:
            raise StorageError(f"cannot be removed: {error.strerror}", path=str(path)) from error

    def known(self, name: str, tenant: str) -> Path:
        """Its journal; UserError that lists what there is when there is no such session."""
        path = self.path_of(name, tenant)
        if not self.exists(name, tenant):
            names = [_header(e.found).name for e in self.entries(tenant) if e.found]
            known = ", ".join(map(repr, names[:10])) + (", ..." if len(names) > 10 else "") if names else "none"
            raise UserError(f"there is no session {name!r}; known: {known}")
        return path

    def _make(self) -> None:
        try:
            self.path.mkdir(mode=0o700, exist_ok=True)
            sync_folder(self.path.parent)
        except OSError as error:
            raise StorageError(f"cannot be made: {error.strerror}", path=str(self.path)) from error


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def _entry(path: Path) -> Entry:
    try:
        return Entry(path, read_journal(path))
    except StorageError as error:
        return Entry(path, None, str(error))


def _header(found: Found) -> Header:
    assert found.state.header is not None  # read_journal refuses a journal without one
    return found.state.header
