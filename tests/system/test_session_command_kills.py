# SPDX-License-Identifier: Apache-2.0
"""`nearkv sessions` commands that are killed or ended at any moment: every session stays or is as the command makes it,
opens, and holds the K and V of its tokens; what no session has is free again.
"""

from __future__ import annotations

import io
import json
import random
import shutil
import signal
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

import pytest
from nearkv.cli import main
from nearkv.kvstore import KVStore
from nearkv.scrub import Scrubber
from nearkv.session.transfer import SessionFile

from tests.support.killed_command import run
from tests.support.stored_sessions import OpenSession, arguments, folders, make_sessions
from tests.support.stores import layout, urls

LENGTHS = {"s0": 150, "s1": 300, "s2": 280}
# What the sessions take on each card, and nothing beside: 8 extents and 3 partial units, each in a slot of 64 KiB.
_FULL = "&quota=704K"


@dataclass(frozen=True)
class Command:
    """Its words and options; tokens of the sessions that it may change, after it (None: gone); what it prepares."""

    words: tuple[str, ...]
    options: tuple[str, ...] = ()
    card: str = ""
    after: tuple[tuple[str, int | None], ...] = ()
    code: int = 0
    damages: bool = False
    evicts: bool = False


COMMANDS = {
    "rm": Command(("rm", "s1"), after=(("s1", None),)),
    "fork": Command(("fork", "s1", "new"), after=(("new", 300),)),
    "export": Command(("export", "s1", "OUT")),
    "import": Command(("import", "FILE"), ("--name", "new"), after=(("new", 300),)),
    "recompute": Command(("verify",), ("--repair", "recompute"), damages=True),
    "drop": Command(("verify",), ("--repair", "drop"), after=(("s1", 192),), damages=True),
    "quota": Command(("import", "FILE"), ("--name", "new"), card=_FULL, code=3),
    "evict": Command(
        ("import", "FILE"), ("--name", "new"), card=_FULL + "&evict=lru", after=(("new", 300),), evicts=True
    ),
}


class Bench:
    """Volumes with three sessions, one exported file, and a fresh copy of both for each run of a command."""

    def __init__(self, folder: Path) -> None:
        self._base, self._work = folder / "base", folder / "work"
        self._base.mkdir()
        cards = make_sessions(self._base, list(LENGTHS.values()), options=_FULL)
        assert run(["sessions", "export", *arguments(cards), "s1", str(self._base / "FILE")], folder / "output")[0] == 0
        self._output = folder / "output"

    def copy(self, command: Command) -> None:
        shutil.rmtree(self._work, ignore_errors=True)
        shutil.copytree(self._base, self._work)
        if command.damages:
            self._damage("s1", 200)

    def run(self, command: Command, at: int = 0, number: int = signal.SIGKILL) -> tuple[int, int]:
        cards = urls(2, self._work, kernel="model", options=command.card)
        words = [str(self._work / word) if word.isupper() else word for word in command.words]
        name, *rest = words
        given = ["sessions", name, *arguments(cards), *command.options, *rest]
        return run(given, self._output, at=at, number=number)

    def check(self, command: Command, code: int) -> None:
        """Whatever the moment was."""
        cards = urls(2, self._work, kernel="model")
        listed = self._told(["sessions", "list", "--json", *arguments(cards)])
        found = {entry["name"]: entry for entry in json.loads(listed)}
        changed = dict(command.after)
        for name in {*LENGTHS, *changed}:
            tokens = found[name]["tokens"] if name in found else None
            allowed = {LENGTHS.get(name), changed.get(name, LENGTHS.get(name))}
            assert tokens in allowed
            if code == command.code == 0 and name in changed:
                assert tokens == changed[name]
        assert all(entry["error"] == "" for entry in found.values())
        if not command.evicts and not command.damages:
            kept = {name for name in found if name not in changed or code == 0}
            assert all(found[name]["stored_tokens"] == found[name]["tokens"] - 1 for name in kept)
        self._check_export(code)
        with KVStore.open(layout(), cards) as store:
            for name in found:
                with OpenSession(store, self._work, name) as session:
                    if not command.damages:  # a bad page is found by those who read it
                        session.steps.restore()
                        session.network.check(session.steps.tokens[:-1])
        if not command.damages or code == 0:
            self._told(["sessions", "verify", *arguments(cards)])
        self._nothing_is_left(cards, list(found))

    def _nothing_is_left(self, cards: Sequence[str], names: Sequence[str]) -> None:
        for name in names:
            self._told(["sessions", "rm", *arguments(cards), name])
        with KVStore.open(layout(), cards) as store:
            assert store.names() == ()
            assert [card.volume.used_nbytes for card in store._cards] == [0, 0]
        left = [path.name for path in (self._work / "card0" / "sessions").iterdir() if path.suffix != ".salt"]
        assert left == []

    def _check_export(self, code: int) -> None:
        made = self._work / "OUT"
        others = {path.name for path in self._work.iterdir()} - {"card0", "card1", "FILE", "OUT"}
        assert not others or code == -signal.SIGKILL
        if made.exists():
            with SessionFile(made) as file:
                assert file.tokens == 299
                assert all(file.rows(layer, layout()).shape[2] == 299 for layer in range(2))

    def _told(self, given: list[str]) -> str:
        with redirect_stdout(io.StringIO()) as out, redirect_stderr(io.StringIO()) as err:
            code = main(given)
        assert code == 0, out.getvalue() + err.getvalue()
        return out.getvalue()

    def _damage(self, name: str, token: int) -> None:
        with folders(self._work) as store, Scrubber(self._work / "card1") as scrubber:
            record = scrubber.record(f"session:{store.summary(name).session}")
            assert record is not None
            group = record.groups[token // 128].slot * scrubber.layout.slot_nbytes
        with (self._work / "card1" / "data-000000.pages").open("r+b") as file:
            file.seek(group + token % 128 // 32 * 4096)
            file.write(bytes(99))


def kill_at_random(folder: Path, each: int, seed: int) -> int:
    """Ends every command `each` times, at random moments by random signals; how many were cut off."""
    bench, chooser, cut = Bench(folder), random.Random(seed), 0
    for name, command in COMMANDS.items():
        bench.copy(command)
        code, calls = bench.run(command)
        assert (code, calls > 100) == (command.code, True), (name, bench._output.read_text())
        bench.check(command, code)
        bench.copy(command)
        _, handled = bench.run(command, 0, signal.SIGINT)
        for turn in range(each):
            number = signal.SIGKILL if turn % 2 == 0 else chooser.choice([signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
            moments = calls if number == signal.SIGKILL else handled
            at = chooser.randrange(moments // 8, moments)
            bench.copy(command)
            code, _ = bench.run(command, at, number)
            ended = {command.code, -number, 128 + number}
            try:
                assert code in ended, bench._output.read_text()
                bench.check(command, code)
            except BaseException as error:
                error.add_note(f"{name}: signal {number} at moment {at} of {moments}, exit code {code}")
                raise
            cut += code != command.code
    return cut


def test_commands_that_are_ended_anywhere_leave_whole_sessions(tmp_path: Path) -> None:
    assert kill_at_random(tmp_path, 2, seed=1) > len(COMMANDS)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_commands_that_are_ended_many_times_leave_whole_sessions(tmp_path: Path) -> None:
    assert kill_at_random(tmp_path, 100, seed=2) > 50 * len(COMMANDS)
