# SPDX-License-Identifier: Apache-2.0
"""The volumes of one store as folders, without cards and without a model: for listing, showing, removing, verifying.

What only reads works beside the process that has the volumes open; what changes something takes their locks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np
from nearkv_driver.errors import StorageError
from numpy.typing import NDArray

from nearkv import copies
from nearkv.errors import UserError
from nearkv.scrub import BadPage, Scrubber
from nearkv.session.fit import fitting, misfit_text
from nearkv.session.folder import DEFAULT_TENANT, SEQUENCE_PREFIX, Entry, SessionFolder
from nearkv.session.journal_reading import Found, read_journal
from nearkv.session.sequences import drop_orphans
from nearkv.token_ids import Ids, agreed
from nearkv.volume import Volume
from nearkv.volume_errors import VolumeOutdated
from nearkv.volume_identity import FORMAT, VolumeIdentity, read_identity
from nearkv.volume_records import SequenceRecord

OnRead = Callable[[int], None]


@dataclass(frozen=True)
class Summary:
    """One session: what its journal says, and its tokens whose K and V the volumes hold. `error`: why it cannot be
    read; `misfit`: why what the volumes hold is not of what the journal says."""

    name: str
    tenant: str
    tokens: int
    turns: int
    cut_off: bool
    stored_tokens: int
    created: str
    model: str
    session: str
    torn_nbytes: int
    error: str = ""
    misfit: str = ""


class StoreFolders:
    """`folders` in the order of the cards; the first one has the journals. A context manager."""

    def __init__(self, folders: Sequence[Path], *, direct: bool = True) -> None:
        """UserError where one is no volume, or they are not the volumes of one store in this order."""
        self.folders, self.sessions = tuple(folders), SessionFolder(folders[0])
        self._direct = direct
        identities = [self._identity(folder) for folder in folders]
        self._check(identities)
        self.layout = identities[0].layout
        self._stack = ExitStack()
        self._scrubbers: list[Scrubber] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def upgrade(self) -> None:
        """Volumes of an older format become what a store that opens them makes of them; others are left alone.
        VolumeBusy while another process has one open."""
        try:
            self._opened()
        except VolumeOutdated:
            with self._locked():
                pass

    def summaries(self, tenant: str | None = None) -> list[Summary]:
        return [self.summary_of(entry) for entry in self.sessions.entries(tenant)]

    def summary(self, name: str, tenant: str = DEFAULT_TENANT) -> Summary:
        found = self.sessions.read(name, tenant)
        return self.summary_of(Entry(self.sessions.path_of(name, tenant), found))

    def held(self, session: str) -> Ids:
        """The tokens of which the volumes hold rows of all KV heads."""
        return self._common(self._records(session))

    def nbytes(self, session: str) -> int:
        """What `verify` will read."""
        return sum(scrubber.nbytes(SEQUENCE_PREFIX + session) for scrubber in self._opened())

    def verify(self, session: str, on_read: OnRead | None = None) -> list[BadPage]:
        """Every page of the session on every volume, read and compared; what is bad."""
        bad: list[BadPage] = []
        for scrubber in self._opened():
            if scrubber.record(SEQUENCE_PREFIX + session) is not None:
                bad += scrubber.scrub(SEQUENCE_PREFIX + session, on_read).bad
        return bad

    def rows(self, session: str, layer: int) -> NDArray[np.float16]:
        """K and V of a layer, [2, kv_heads, tokens, head_size], checked; as many tokens as all volumes hold."""
        tokens, layout = len(self.held(session)), self.layout
        out = np.zeros((2, layout.kv_heads, tokens, layout.head_size), np.float16)
        for scrubber in self._opened():
            record = scrubber.record(SEQUENCE_PREFIX + session)
            if record is not None:
                out[:, list(record.heads)] = scrubber.rows(record, layer)[:, :, :tokens]
        return out

    def remove(self, name: str, tenant: str = DEFAULT_TENANT) -> None:
        """The journal first: what a crash leaves then is K and V that no journal names, which the next opening of the
        store removes. VolumeBusy while another process has a volume open."""
        if not self.sessions.exists(name, tenant):
            self.sessions.read(name, tenant)  # says what there is
        with self._locked() as volumes:
            header = self.sessions.remove(name, tenant)

            def delete(sequence: str) -> None:
                for volume in volumes:
                    copies.remove(volume, sequence)

            try:
                if header is not None:
                    delete(SEQUENCE_PREFIX + header.session)
                drop_orphans(self.sessions, {n for volume in volumes for n in volume.index.names()}, delete)
            except StorageError as error:
                text = f"session {name!r} is removed, its K and V not yet: {error}; what next changes a session does it"
                raise StorageError(text, path=error.path, errno_name=error.errno_name) from error

    def summary_of(self, entry: Entry) -> Summary:
        if entry.found is None:
            return Summary(entry.path.name, "", 0, 0, False, 0, "", "", "", 0, entry.error)
        state = entry.found.state
        assert state.header is not None
        header = state.header
        stored, misfit = self._fit(entry.path, header.session, entry.found)
        return Summary(
            name=header.name,
            tenant=header.tenant,
            tokens=len(state.tokens),
            turns=state.turns,
            cut_off=state.turn is not None,
            stored_tokens=min(stored, state.cached),
            created=header.created,
            model=header.model,
            session=header.session,
            torn_nbytes=entry.found.torn_nbytes,
            misfit=misfit,
        )

    def _records(self, session: str) -> list[SequenceRecord]:
        """Of the volumes that have some of the session."""
        found = [scrubber.record(SEQUENCE_PREFIX + session) for scrubber in self._opened()]
        return [record for record in found if record is not None]

    def _common(self, records: Sequence[SequenceRecord]) -> Ids:
        # A crash between two cards leaves some heads only: no token is whole then.
        if sorted(head for record in records for head in record.heads) != list(range(self.layout.kv_heads)):
            return []
        return agreed([record.ids for record in records])

    def _fit(self, path: Path, session: str, found: Found) -> tuple[int, str]:
        """How many rows are of the journal's tokens, and why those of one of the volumes are not all of them.

        Where the session is in use, journal and indexes may be of several moments: what does not fit counts if it is so
        too with the journal as it is now, and the indexes the same before and after.
        """
        records, tokens = self._records(session), found.state.tokens
        while odd := [r.ids for r in records if fitting(r.ids, tokens) < len(r.ids)]:
            before = records
            tokens, records = read_journal(path).state.tokens, self._records(session)
            if [r.ids for r in records] == [r.ids for r in before]:
                odd = [r.ids for r in records if fitting(r.ids, tokens) < len(r.ids)]
                text = misfit_text(len(odd[0]), len(tokens), fitting(odd[0], tokens)) if odd else ""
                return fitting(self._common(records), tokens), text
        return fitting(self._common(records), tokens), ""

    def _opened(self) -> list[Scrubber]:
        if not self._scrubbers:
            with ExitStack() as opening:
                found = [opening.enter_context(Scrubber(f, direct=self._direct)) for f in self.folders]
                self._stack.push(opening.pop_all())
            self._scrubbers = found
        return self._scrubbers

    @contextmanager
    def _locked(self) -> Iterator[list[Volume]]:
        """All volumes, open to be written."""
        with ExitStack() as stack:
            volumes = []
            for folder in self.folders:
                # What is wanted is this format, whatever is there: else the index alone would be upgraded.
                wanted = replace(self._identity(folder), format=FORMAT)
                volume = Volume(folder, wanted, wanted.layout.slot_nbytes, direct=self._direct)
                volumes.append(stack.enter_context(closing(volume)))
            yield volumes

    @staticmethod
    def _identity(folder: Path) -> VolumeIdentity:
        identity = read_identity(folder)
        if identity is None:
            raise UserError(f"{folder} holds no volume")
        return identity

    def _check(self, identities: Sequence[VolumeIdentity]) -> None:
        count, store = identities[0].cards, identities[0].store
        if count != len(identities):
            raise UserError(f"{self.folders[0]} is one of {count} volumes; {len(identities)} are given")
        for number, (identity, folder) in enumerate(zip(identities, self.folders, strict=True)):
            if identity.store != store:
                raise UserError(f"{folder} and {self.folders[0]} are volumes of different stores")
            if identity.card != number:
                raise UserError(f"{folder} is volume {identity.card} of its store; it is given as number {number}")
