# SPDX-License-Identifier: Apache-2.0
"""Sessions on real volumes without a model, for tests of what works on stored ones: K and V decided by the tokens."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from nearkv.kvstore import KVStore
from nearkv.session.folder import SEQUENCE_PREFIX, SessionFolder
from nearkv.session.journal import Journal
from nearkv.session.sequences import open_whole
from nearkv.session.steps import SessionSteps
from nearkv.session.store_folders import StoreFolders

from tests.support.store_network import StoreNetwork
from tests.support.stores import layout, urls


class OpenSession:
    """One session over an open store, made if there is none. A context manager."""

    def __init__(self, store: KVStore, folder: Path, name: str, every: int = 1) -> None:
        sessions = SessionFolder(folder / "card0")
        if not sessions.exists(name):
            sessions.create(name, store.layout.model)[0].close()
        self.journal: Journal
        self.journal, found = sessions.open(name, every=every)
        header = found.state.header
        assert header is not None
        self.sequence_name = SEQUENCE_PREFIX + header.session
        sequence, _ = open_whole(store, header.session)
        if sequence is None:
            sequence = store.add_sequence(self.sequence_name)
        tokens = found.state.tokens[: store.length(sequence)]
        self.network = StoreNetwork(store, sequence, tokens, attends=False)
        self.steps = SessionSteps(self.journal, found.state, self.network)
        self._store, self._sequence = store, sequence

    def __enter__(self) -> OpenSession:
        return self

    def __exit__(self, *_: object) -> None:
        self.steps.close()
        self._store.free(self._sequence)


def make_sessions(folder: Path, lengths: Sequence[int], *, options: str = "") -> list[str]:
    """Sessions "s0", "s1", ... of so many tokens on two volumes in `folder`, each with K and V; the cards' URLs."""
    cards = urls(2, folder, kernel="model", options=options)
    with KVStore.open(layout(), cards) as store:
        for number, length in enumerate(lengths):
            with OpenSession(store, folder, f"s{number}") as session:
                session.steps.say(range(7 * number, 7 * number + length - 1), max_new_tokens=1)
    return cards


def folders(folder: Path) -> StoreFolders:
    return StoreFolders([folder / "card0", folder / "card1"])


def arguments(cards: Sequence[str]) -> list[str]:
    return [part for card in cards for part in ("--card", card)]
