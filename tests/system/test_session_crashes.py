# SPDX-License-Identifier: Apache-2.0
"""Crash states of a real session: whatever was on its way, no token handed out is lost and no wrong row served."""

from __future__ import annotations

import random
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from nearkv.kvstore import KVStore
from nearkv.session.folder import SEQUENCE_PREFIX, SessionFolder
from nearkv.session.steps import SessionSteps

from tests.support.crash_recorder import Event, Recorder, Told, crashes, restore
from tests.support.held_writer import WriterAtOnce
from tests.support.store_network import StoreNetwork, next_token
from tests.support.stores import die, layout, urls

CARDS = 2


def opened(folder: Path, calls: Recorder | None = None) -> KVStore:
    return KVStore.open(layout(layers=1), urls(CARDS, folder, kernel="model"), syscalls=calls, writer=WriterAtOnce)


@dataclass
class Run:
    """What a session did: the events, where it began, and its tokens after each thing that was told."""

    base: Path
    was: Path
    events: list[Event]
    session: str

    def told(self, count: int) -> tuple[int, ...]:
        """The tokens that the user had been promised after so many events."""
        return next((e.value for e in reversed(self.events[:count]) if isinstance(e, Told)), ())


def run_session(folder: Path, patch: pytest.MonkeyPatch, every: int = 1) -> Run:
    """A long prompt, a turn that spills twice, a crop into the first prompt, another turn."""
    calls = Recorder()
    was, base = folder / "was", folder / "base"
    was.mkdir()
    with patch.context() as patched:
        store = opened(was, calls)
        sessions = SessionFolder(was / "card0", calls)
        journal, header = sessions.create("a", store.layout.model, every=every)
        sequence = store.add_sequence(SEQUENCE_PREFIX + header.session)
        shutil.copytree(was, base)
        for card in range(CARDS):
            index = store._cards[card].volume.index
            (base / f"card{card}" / "index.sqlite").write_bytes(index._db.serialize())
            for leftover in (base / f"card{card}").glob("index.sqlite-*"):
                leftover.unlink()
        calls.events.clear()
        calls.watch(patched)
        with journal:
            session = SessionSteps(journal, _state(sessions), StoreNetwork(store, sequence))

            def told(_: int = 0) -> None:
                calls.tell(session.tokens)

            session.say(range(100, 150), max_new_tokens=40, on_token=told)
            calls.tell(session.tokens[:37])  # from now on the user wants no more than these
            session.crop(37)
            told()
            session.say([7, 8, 9], max_new_tokens=36, chunk=2, on_token=told)
        die(store)
    return Run(base, was, calls.events, header.session)


def _state(sessions: SessionFolder) -> object:
    return sessions.read("a").state


def check(folder: Path, run: Run, promised: Sequence[int], lossy: int = 0) -> None:
    """`lossy` tokens at the end of `promised` may be missing."""
    with opened(folder) as store:
        sessions = SessionFolder(folder / "card0")
        journal, found = sessions.open("a")
        with journal:
            tokens = found.state.tokens
            sequence = store.open_sequence(SEQUENCE_PREFIX + run.session)
            network = StoreNetwork(store, sequence, _rows_tokens(store, sequence, tokens))
            session = SessionSteps(journal, found.state, network)
            session.restore()
            network.check(tokens[: found.state.cached])
            kept = promised[: max(0, len(promised) - lossy)]
            assert len(tokens) >= len(kept), f"{len(promised)} tokens were promised, {len(tokens)} are there"
            assert tuple(tokens[: len(kept)]) == tuple(kept)
            if session.unfinished:
                reply = session.go_on()
                assert all(
                    reply.tokens[i] == next_token(session.tokens[: len(session.tokens) - len(reply.tokens) + i])
                    for i in range(len(reply.tokens))
                )
                network.check(session.tokens[:-1])


def _rows_tokens(store: KVStore, sequence: int, tokens: Sequence[int]) -> list[int]:
    """The network believes that stored rows are those of the journal's tokens: `check` sees whether they are."""
    return list(tokens[: store.length(sequence)])


def crash_all(
    tmp_path: Path, patch: pytest.MonkeyPatch, *, states: int, per_moment: int, seed: int, every: int = 1
) -> int:
    """Checks `states` states, spread over the run; how many there were to choose from."""
    run = run_session(tmp_path, patch, every)
    chooser = random.Random(seed)
    every_one = list(crashes(run.events, chooser, per_moment=per_moment))
    chosen = every_one if len(every_one) <= states else sorted(chooser.sample(range(len(every_one)), states))
    for number in chosen:
        crash = every_one[number] if isinstance(number, int) else number
        folder = tmp_path / "after"
        restore(run.base, run.events, crash, folder, run.was)
        try:
            check(folder, run, run.told(crash.events), 0 if every == 1 else every)
        except BaseException as error:
            error.add_note(f"{crash} of {len(run.events)} events, {run.events[crash.events - 1]!r:.200}")
            raise
    return len(chosen)


def test_crash_states_of_a_session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert crash_all(tmp_path, monkeypatch, states=400, per_moment=6, seed=1) == 400


def test_crash_states_with_a_sync_every_few_tokens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert crash_all(tmp_path, monkeypatch, states=100, per_moment=6, seed=2, every=5) == 100
