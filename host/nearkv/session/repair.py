# SPDX-License-Identifier: Apache-2.0
"""Changes of a session that need its store but no model: forks, and what to do about bad pages."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from nearkv.errors import UserError
from nearkv.kvstore import KVStore
from nearkv.pages import whole_units
from nearkv.session.folder import SEQUENCE_PREFIX
from nearkv.session.journal import Found, doubtful, read_journal
from nearkv.session.records import Crop
from nearkv.session.sequences import drop_orphans, open_whole, undone
from nearkv.session.store_folders import StoreFolders, Summary

REPAIRS = ("recompute", "drop")


def drop_doubtful(store: KVStore, found: Found) -> bool:
    """Drops K and V of a session whose journal lost records at its end, before they are cut off; whether it had some.

    One of them may have been a crop: then the volumes hold rows of what was said after it, at places where the journal
    has other tokens. A crash alone leaves no such rows, but cannot be told from damage of the last records.
    """
    header = found.state.header
    if not doubtful(found.torn_nbytes) or header is None:
        return False
    sequence, incomplete = open_whole(store, header.session)
    if sequence is None:
        return bool(incomplete)
    dropped = store.length(sequence) > 0
    if dropped:
        store.crop(sequence, 0)
    store.free(sequence)
    return dropped


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
        drop_doubtful(store, found)
        sequence, _ = open_whole(store, header.session)
        with undone(store, session):
            if sequence is not None:
                store.fork_named(sequence, SEQUENCE_PREFIX + session)
            folders.sessions.copy(header, new, session)


def repair_journal(urls: Sequence[str], folders: StoreFolders, name: str, tenant: str) -> str:
    """Drops what a damaged journal has from its first bad record on; what was done, in a sentence. VolumeDamaged where
    nothing of it can be kept."""
    cut = read_journal(folders.sessions.path_of(name, tenant), accept_damage=True)
    with open_store(urls, folders) as store:
        dropped = drop_doubtful(store, cut)
        journal, found = folders.sessions.open(name, tenant=tenant, accept_damage=True)
        journal.close()
    return (
        f"{found.torn_nbytes} bytes of its journal were damaged; the session has {len(found.state.tokens)} tokens now"
        + (", and K and V will be computed again when it is opened" if dropped else "")
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
        drop_doubtful(store, folders.sessions.read(summary.name, summary.tenant))
        sequence, _ = open_whole(store, summary.session)
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
