# SPDX-License-Identifier: Apache-2.0
"""SIGKILL, SIGINT or SIGTERM of the real program at random moments: the conversation goes on, and ends with the tokens
that it would have had.
"""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from nearkv.session.folder import SessionFolder
from nearkv.session.state import SessionState
from nearkv.session.store_folders import StoreFolders
from transformers import PreTrainedTokenizerFast

from tests.support.fork_server import ForkServer
from tests.support.tiny_folder import tiny_folder

WORDS = "the quick brown fox jumps over the lazy dog and runs into the forest where nobody has been for many years "
# (prompt, new tokens, further options)
TURNS = [
    (WORDS, 70, ()),
    ("and then?", 50, ("--temperature", "1.2", "--seed", "5")),
    (WORDS * 2, 40, ("--prefill-chunk", "50")),
]

KILL, END = (signal.SIGKILL,), (signal.SIGINT, signal.SIGTERM)
# Exit codes of a program that has seen the signal and closed what it had open.
_ENDED = {signal.SIGINT: (130,), signal.SIGTERM: (143,)}


class Conversations:
    """One session after another with the same turns; each run of the program does what is left of one turn."""

    def __init__(self, server: ForkServer, model: Path, folder: Path, seed: int) -> None:
        self._server, self._model, self._folder = server, model, folder
        self._chooser = random.Random(seed)
        self._wanted: list[int] = []
        self._tokenizer = PreTrainedTokenizerFast.from_pretrained(model)
        self.run_s = 0.0
        self.kills = 0

    def straight(self) -> None:
        """The tokens that every session must have in the end."""
        began_s = time.monotonic()
        while (arguments := self._next("straight")) is not None:
            assert self._server.run(self._output, arguments) == 0, self._output.read_text()
        self._wanted = self._state("straight").tokens
        self.run_s = (time.monotonic() - began_s) / len(TURNS)

    def killed(self, kills: int, signals: Sequence[signal.Signals]) -> None:
        """Sessions whose runs get one of the signals, until `kills` were ended by one; the last one ends in peace."""
        sessions = 0
        while self.kills < kills:
            name = f"killed {sessions}"
            while (arguments := self._next(name)) is not None:
                pid = self._server.start(self._output, arguments)
                moment = self._chooser.uniform(0, 0.8 * self.run_s)
                number = self._chooser.choice(signals)
                timer = threading.Timer(moment, os.kill, (pid, number))
                if self.kills < kills:
                    timer.start()
                status = self._server.wait()
                timer.cancel()
                told = self._output.read_text()
                assert status in (0, -number, *_ENDED.get(number, ())), told
                assert "Traceback" not in told
                self.kills += status != 0
                self._check(name, told if status == -signal.SIGKILL else "")
            assert self._state(name).tokens == self._wanted
            sessions += 1

    def _check(self, name: str, shown: str) -> None:
        """Nothing that was shown is missing, and nothing is other than it must be."""
        found = self._state(name)
        assert found.tokens == self._wanted[: len(found.tokens)]
        assert shown in self._tokenizer.decode(
            found.tokens, skip_special_tokens=True, clean_up_tokenization_spaces=False
        )
        with StoreFolders([self._folder / f"card{i}" for i in range(2)]) as folders:
            for summary in folders.summaries():
                assert folders.verify(summary.session) == []

    def _next(self, name: str) -> list[str] | None:
        state = self._state(name)
        if state.turn is None and state.turns == len(TURNS):
            return None
        prompt, new, options = TURNS[state.turns]
        line = ["generate", "--model", str(self._model), "--session", name, "--max-new-tokens", str(new), *options]
        if not state.prompt_end:
            line += ["--prompt", prompt]
        for i in range(2):
            line += ["--card", f"sw_emu:{i}?dram=16M&ssd={self._folder}/card{i}"]
        return line

    def _state(self, name: str) -> SessionState:
        sessions = SessionFolder(self._folder / "card0")
        return sessions.read(name).state if sessions.exists(name) else SessionState()

    @property
    def _output(self) -> Path:
        return self._folder / "output"


def kill_at_random(tmp_path: Path, kills: int, seed: int, signals: Sequence[signal.Signals] = KILL) -> None:
    model = tiny_folder(tmp_path / "tiny")
    with ForkServer(tmp_path) as server:
        conversations = Conversations(server, model, tmp_path, seed)
        conversations.straight()
        conversations.killed(kills, signals)
        assert conversations.kills == kills


def test_a_killed_program_goes_on(tmp_path: Path) -> None:
    # About 60 CPU seconds, most of it for loading model and cards again; 200 in soak.
    kill_at_random(tmp_path, 20, seed=1)


def test_a_program_that_is_told_to_end_goes_on(tmp_path: Path) -> None:
    kill_at_random(tmp_path, 6, seed=3, signals=END)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_a_program_that_is_told_to_end_60_times_goes_on(tmp_path: Path) -> None:
    kill_at_random(tmp_path, 60, seed=4, signals=END)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_a_program_that_is_killed_200_times_goes_on(tmp_path: Path) -> None:
    kill_at_random(tmp_path, 200, seed=2)
