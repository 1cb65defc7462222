# SPDX-License-Identifier: Apache-2.0
"""Crash states of a real session: whatever was on its way, no token handed out is lost and no wrong row served."""

from __future__ import annotations

import random
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from nearkv.kvstore import KVStore
from nearkv.session.folder import SEQUENCE_PREFIX, SessionFolder
from nearkv.session.steps import SessionSteps

from tests.support.crash_recorder import Crash, Event, Recorder, Sync, Told, crashes, restore
from tests.support.held_writer import WriterAtOnce
from tests.support.store_network import StoreNetwork, next_token
from tests.support.stores import die, layout, urls

CARDS = 2


def opened(folder: Path, calls: Recorder | None = None) -> KVStore:
    # What a crash leaves is computed from the writes, so the medium of this test need not be a real drive.
    cards = [url.replace("dram=64M", "dram=4M") for url in urls(CARDS, folder, kernel="model", options="&io=buffered")]
    return KVStore.open(layout(layers=1), cards, syscalls=calls, writer=WriterAtOnce)


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


@dataclass(frozen=True)
class Script:
    """A prompt, a turn, a crop, a second prompt (in chunks) and turn; a sync of the journal after `every` tokens."""

    prompt: int = 50
    turn: int = 40
    crop: int = 37
    chunk: int = 2
    second: int = 3
    last: int = 36
    every: int = 1

    @classmethod
    def drawn(cls, chooser: random.Random) -> Script:
        prompt, turn = chooser.randrange(1, 80), chooser.randrange(1, 50)
        crop = chooser.randrange(prompt + turn + 1)
        return cls(
            prompt,
            turn,
            crop,
            chooser.choice([0, 1, 2, 7]),
            chooser.randrange(1, 70),
            chooser.randrange(1, 50),
            chooser.choice([0, 1, 2, 5]),
        )


def run_session(folder: Path, patch: pytest.MonkeyPatch, script: Script) -> Run:
    """By default a long prompt, a turn that spills twice, a crop into the first prompt, another turn."""
    calls = Recorder()
    was, base = folder / "was", folder / "base"
    was.mkdir()
    with patch.context() as patched:
        store = opened(was, calls)
        sessions = SessionFolder(was / "card0", calls)
        journal, header = sessions.create("a", store.layout.model, every=script.every)
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
            session = SessionSteps(journal, sessions.read("a").state, StoreNetwork(store, sequence))

            def told(_: int = 0) -> None:
                calls.tell(session.tokens)

            session.say(range(100, 100 + script.prompt), max_new_tokens=script.turn, on_token=told)
            calls.tell(session.tokens[: script.crop])  # from now on the user wants no more than these
            session.crop(script.crop)
            told()
            second = range(7, 7 + script.second)
            session.say(second, max_new_tokens=script.last, chunk=script.chunk, on_token=told)
        die(store)
    return Run(base, was, calls.events, header.session)


def check(folder: Path, run: Run, promised: Sequence[int], *, goes_on: bool) -> None:
    """The tokens promised are there, and K and V of exactly those that the journal has; the turn can go on."""
    with opened(folder) as store:
        sessions = SessionFolder(folder / "card0")
        journal, found = sessions.open("a")
        with journal:
            tokens = found.state.tokens
            sequence = store.open_sequence(SEQUENCE_PREFIX + run.session)
            network = StoreNetwork(store, sequence, _rows_tokens(store, sequence, tokens), attends=goes_on)
            session = SessionSteps(journal, found.state, network)
            session.restore()
            network.check(tokens[: found.state.cached])
            assert len(tokens) >= len(promised), f"{len(promised)} tokens were promised, {len(tokens)} are there"
            assert tuple(tokens[: len(promised)]) == tuple(promised)
            if goes_on and session.unfinished:
                reply = session.go_on()
                assert all(
                    reply.tokens[i] == next_token(session.tokens[: len(session.tokens) - len(reply.tokens) + i])
                    for i in range(len(reply.tokens))
                )
                network.check(session.tokens[:-1])


def _rows_tokens(store: KVStore, sequence: int, tokens: Sequence[int]) -> list[int]:
    """The network believes that stored rows are those of the journal's tokens: `check` sees whether they are."""
    return list(tokens[: store.length(sequence)])


def promised(run: Run, crash: Crash, every: int) -> tuple[int, ...]:
    """The tokens that must be there: all that were handed out, but for those that wait for a sync of the journal."""
    told = run.told(crash.events)
    if every == 1:
        return told
    synced = [
        i for i, e in enumerate(run.events[: crash.events]) if isinstance(e, Sync) and e.path.endswith(".journal")
    ]
    return told[: len(run.told(synced[-1] if synced else 0))] if every == 0 else told[: max(0, len(told) - every + 1)]


def crash_all(
    folder: Path, patch: pytest.MonkeyPatch, script: Script, *, states: int, per_moment: int, seed: int
) -> int:
    """Checks `states` states, spread over the run, or all; how many. Every eighth one goes on with attention."""
    folder.mkdir()
    run = run_session(folder, patch, script)
    chooser = random.Random(seed)
    all_ = list(crashes(run.events, chooser, per_moment=per_moment))
    chosen = sorted(chooser.sample(range(len(all_)), min(states, len(all_))))
    for number, crash in enumerate(all_[i] for i in chosen):
        after = folder / "after"
        restore(run.base, run.events, crash, after, run.was)
        try:
            check(after, run, promised(run, crash, script.every), goes_on=number % 8 == 0)
        except BaseException as error:
            error.add_note(f"{script}: {crash} of {len(run.events)} events, {run.events[crash.events - 1]!r:.200}")
            raise
    return len(chosen)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """In memory where there is such a place: a state is made of bytes that were written down, no drive takes part."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else tmp_path) as made:
        yield Path(made)


def test_crash_states_of_a_session(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert crash_all(folder / "run", monkeypatch, Script(), states=400, per_moment=6, seed=1) == 400


@pytest.mark.parametrize("every", [5, 0])
def test_crash_states_with_a_sync_every_few_tokens(folder: Path, monkeypatch: pytest.MonkeyPatch, every: int) -> None:
    script = Script(every=every)
    assert crash_all(folder / "run", monkeypatch, script, states=50, per_moment=6, seed=2) == 50


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_ten_thousand_crash_states(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chooser, done = random.Random(11), 0
    while done < 10_000:
        script = Script.drawn(chooser)
        done += crash_all(folder / f"run{done}", monkeypatch, script, states=700, per_moment=16, seed=done)
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(exist_ok=True)
