# SPDX-License-Identifier: Apache-2.0
"""Changes of a session that need its store but no model: forks, and what to do about bad pages and bad journals."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from nearkv.errors import UserError
from nearkv.kvstore import KVStore
from nearkv.pages import whole_units
from nearkv.session.fit import check_fit, fitting
from nearkv.session.folder import SEQUENCE_PREFIX
from nearkv.session.journal_reading import Found, doubtful, read_journal
from nearkv.session.quota import require_room
from nearkv.session.records import Crop
from nearkv.session.sequences import drop_orphans, open_whole, undone
from nearkv.session.store_folders import StoreFolders, Summary

REPAIRS = ("recompute", "drop")


def open_fitting(store: KVStore, path: Path, found: Found) -> tuple[int | None, str]:
    """The open sequence of the session whose journal is at `path`; None where it has none, as `sequences.open_whole`.

    Called before a torn end of the journal is cut off: JournalMisfit, and nothing changed, where the rows that a volume
    has are of other tokens than the journal's. Where nobody knows of which they are, and a crop may be among what is
    torn off, they are dropped.
    """
    for held in store.recorded_ids(SEQUENCE_PREFIX + _session(found)):
        check_fit(path, held, found.state.tokens)
    sequence, incomplete = open_whole(store, _session(found))
    if sequence is None:
        return None, incomplete
    try:
        if doubtful(found.torn_nbytes) and None in store.token_ids(sequence):
            store.crop(sequence, 0)
    except BaseException:
        store.free(sequence)
        raise
    return sequence, ""


def drop_misfit(store: KVStore, found: Found) -> int:
    """Drops K and V of a session from the first row on that is not of its journal's tokens; how many were dropped.

    All of them where the journal lost records and it is not known of which tokens they are.
    """
    found_ids = store.recorded_ids(SEQUENCE_PREFIX + _session(found))
    unsure = doubtful(found.torn_nbytes) and any(None in held for held in found_ids)
    keep = [0 if unsure else fitting(held, found.state.tokens) for held in found_ids]
    sequence, _ = open_whole(store, _session(found))
    if sequence is not None:
        if store.length(sequence) > min(keep):
            store.crop(sequence, min(keep))
        store.free(sequence)
    return max((len(held) - kept for held, kept in zip(found_ids, keep, strict=True)), default=0)


def _session(found: Found) -> str:
    assert found.state.header is not None  # read_journal refuses a journal without one
    return found.state.header.session


@contextmanager
def open_store(urls: Sequence[str], folders: StoreFolders) -> Iterator[KVStore]:
    """The store of these cards, without what crashes left in it; nothing is computed with it, so its layout need not
    know the query heads."""
    with KVStore.open(folders.layout, urls) as store:
        drop_orphans(folders.sessions, store.names(), store.delete)
        yield store


def fork_session(urls: Sequence[str], folders: StoreFolders, name: str, new: str, tenant: str) -> None:
    """A session `new` that has all of the session `name`; nothing is left of one that fails."""
    folders.sessions.read(name, tenant)  # says if there is none
    folders.sessions.new_header(new, "", tenant)  # says if there is one already
    session = secrets.token_hex(8)
    with open_store(urls, folders) as store:
        found = folders.sessions.read(name, tenant)
        header = found.state.header
        assert header is not None
        sequence, _ = open_fitting(store, folders.sessions.path_of(name, tenant), found)
        if sequence is not None:
            require_room(store, folders.sessions, tenant, store.length(sequence))
        with undone(store, session):
            if sequence is not None:
                store.fork_named(sequence, SEQUENCE_PREFIX + session)
            folders.sessions.copy(header, new, session)


def repair_journal(urls: Sequence[str], folders: StoreFolders, name: str, tenant: str) -> str:
    """Drops what a damaged journal has from its first bad record on, and rows that are not of the tokens before; what
    was done, in a sentence. VolumeDamaged where nothing of it can be kept."""
    cut = read_journal(folders.sessions.path_of(name, tenant), accept_damage=True)
    with open_store(urls, folders) as store:
        dropped = drop_misfit(store, cut)
        journal, found = folders.sessions.open(name, tenant=tenant, accept_damage=True)
        journal.close()
    lost = f"{found.torn_nbytes} bytes of its journal were damaged; " if found.torn_nbytes else ""
    return f"{lost}the session has {len(found.state.tokens)} tokens now" + (
        f", and K and V of {dropped} that the journal does not have are dropped" if dropped else ""
    )


def repair_session(urls: Sequence[str], folders: StoreFolders, summary: Summary, how: str) -> str:
    """Reads all pages and drops what begins with the first bad one: of K and V alone ("recompute": the next opening
    computes it from the tokens), or of the session ("drop"). What was done, in a sentence."""
    if how not in REPAIRS:
        raise UserError(f"repair {how!r}; allowed are {', '.join(REPAIRS)}")
    with open_store(urls, folders) as store:
        if not (bad := folders.verify(summary.session)):  # another process may have been first
            return "it is good by now"
        good = whole_units(min(page.token for page in bad), folders.layout.unit_tokens)
        found = folders.sessions.read(summary.name, summary.tenant)
        sequence, _ = open_fitting(store, folders.sessions.path_of(summary.name, summary.tenant), found)
        if sequence is not None:
            if store.length(sequence) > good:
                store.crop(sequence, good)
            store.free(sequence)
        if how == "recompute":
            return f"{len(bad)} bad pages; K and V from token {good} on will be computed again when it is opened"
        journal, found = folders.sessions.open(summary.name, tenant=summary.tenant)
        with journal:
            journal.append(Crop(min(good, len(found.state.tokens))))
    return f"{len(bad)} bad pages; the session ends before token {good} now"
