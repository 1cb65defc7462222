# SPDX-License-Identifier: Apache-2.0
"""Changes of a session that need its store but no model: forks, and what to do about bad pages."""

from __future__ import annotations

import secrets
from collections.abc import Sequence

from nearkv.errors import UserError
from nearkv.kvstore import KVStore
from nearkv.layout import ModelLayout
from nearkv.pages import whole_units
from nearkv.scrub import BadPage
from nearkv.session.folder import SEQUENCE_PREFIX
from nearkv.session.journal import Found, doubtful, read_journal
from nearkv.session.records import Crop
from nearkv.session.store_folders import StoreFolders, Summary

REPAIRS = ("recompute", "drop")


def drop_doubtful(store: KVStore, found: Found) -> bool:
    """Drops K and V of a session whose journal lost records at its end, before they are cut off; whether it had some.

    One of them may have been a crop: then the volumes hold rows of what was said after it, at places where the journal
    has other tokens. A crash alone leaves no such rows, but cannot be told from damage of the last records.
    """
    header = found.state.header
    if not doubtful(found.torn_nbytes) or header is None or SEQUENCE_PREFIX + header.session not in store.names():
        return False
    sequence = store.open_sequence(SEQUENCE_PREFIX + header.session)
    dropped = store.length(sequence) > 0
    if dropped:
        store.crop(sequence, 0)
    store.free(sequence)
    return dropped


def open_store(urls: Sequence[str], layout: ModelLayout) -> KVStore:
    """The store of these cards; nothing is computed with it, so `layout` need not know the query heads."""
    return KVStore.open(layout, urls)


def fork_session(urls: Sequence[str], folders: StoreFolders, name: str, new: str, tenant: str) -> None:
    """A session `new` that has all of the session `name`; nothing is left of one that fails."""
    found = folders.sessions.read(name, tenant)
    folders.sessions.new_header(new, "", tenant)  # says if there is one already
    header = found.state.header
    assert header is not None
    session = secrets.token_hex(8)
    with open_store(urls, folders.layout) as store:
        drop_doubtful(store, found)
        if SEQUENCE_PREFIX + header.session in store.names():
            sequence = store.open_sequence(SEQUENCE_PREFIX + header.session)
            store.fork_named(sequence, SEQUENCE_PREFIX + session)
        folders.sessions.copy(header, new, session)


def repair_journal(urls: Sequence[str], folders: StoreFolders, name: str, tenant: str) -> str:
    """Drops what a damaged journal has from its first bad record on; what was done, in a sentence. VolumeDamaged where
    nothing of it can be kept."""
    cut = read_journal(folders.sessions.path_of(name, tenant), accept_damage=True)
    with open_store(urls, folders.layout) as store:
        dropped = drop_doubtful(store, cut)
        journal, found = folders.sessions.open(name, tenant=tenant, accept_damage=True)
        journal.close()
    return (
        f"{found.torn_nbytes} bytes of its journal were damaged; the session has {len(found.state.tokens)} tokens now"
        + (", and K and V will be computed again when it is opened" if dropped else "")
    )


def repair_session(
    urls: Sequence[str], folders: StoreFolders, summary: Summary, bad: Sequence[BadPage], how: str
) -> str:
    """Drops what begins with the first bad page: of K and V alone ("recompute": the next opening computes it from the
    tokens), or of the session ("drop"). What was done, in a sentence."""
    if how not in REPAIRS:
        raise UserError(f"repair {how!r}; allowed are {', '.join(REPAIRS)}")
    layout = folders.layout
    good = whole_units(min(page.token for page in bad), layout.unit_tokens)
    with open_store(urls, layout) as store:
        drop_doubtful(store, folders.sessions.read(summary.name, summary.tenant))
        sequence = store.open_sequence(SEQUENCE_PREFIX + summary.session)
        if store.length(sequence) > good:
            store.crop(sequence, good)
        store.free(sequence)
        if how == "recompute":
            return f"{len(bad)} bad pages; K and V from token {good} on will be computed again when it is opened"
        journal, found = folders.sessions.open(summary.name, tenant=summary.tenant)
        with journal:
            journal.append(Crop(min(good, len(found.state.tokens))))
    return f"{len(bad)} bad pages; the session ends before token {good} now"
