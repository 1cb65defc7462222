# SPDX-License-Identifier: Apache-2.0
"""Sessions against plain lists: whatever is said, cut off, forked, cropped, killed or failed, in any order."""

from __future__ import annotations

import errno
import tempfile
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from nearkv.errors import UserError
from nearkv.session.folder import SessionFolder
from nearkv.session.records import Sampling
from nearkv.session.steps import SessionSteps
from nearkv_driver.errors import DriverError
from nearkv_driver.syscalls import SystemCalls
from nearkv_emulation.storage_faults import Fails, FaultySyscalls

from tests.support.session_networks import FakeNetwork, Medium

NAMES = st.sampled_from("abc")


class _Killed(BaseException):
    pass


@dataclass
class Plain:
    """A session that is never closed and never fails: tokens in a list, and the network that gives the next one."""

    network: FakeNetwork = field(default_factory=lambda: FakeNetwork(Medium()))
    tokens: list[int] = field(default_factory=list)
    sampling: Sampling = field(default_factory=Sampling)
    chunk: int = 0
    left: int = 0
    said: int = 0
    cropped: bool = False

    def begin(self, prompt: list[int], count: int, chunk: int, sampling: Sampling) -> None:
        self.tokens += prompt
        self.left, self.said, self.chunk, self.sampling = count, 0, chunk, sampling

    def step(self) -> int:
        if self.said:
            scores = self.network.forward([self.tokens[-1]])
        else:
            first, end = self.network.cached, len(self.tokens)
            for start in range(first, end, self.chunk or end):
                scores = self.network.forward(self.tokens[start : min(end, start + (self.chunk or end))])
        self.tokens.append(self.network.choose(scores, self.sampling, len(self.tokens)))
        self.left, self.said = self.left - 1, self.said + 1
        return self.tokens[-1]

    def crop(self, length: int) -> None:
        del self.tokens[length:]
        self.left = self.said = 0
        self.cropped = True
        if self.network.cached > length:
            self.network.crop(length)


class SessionMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self._temporary = tempfile.TemporaryDirectory()
        self.calls = FaultySyscalls(SystemCalls())
        self.folder = SessionFolder(Path(self._temporary.name), self.calls)
        self.plain: dict[str, Plain] = {}
        self.media: dict[str, Medium] = {}
        self.name = ""
        self.session: SessionSteps | None = None

    def teardown(self) -> None:
        if self.session is not None:
            self.session.close()
        self._temporary.cleanup()

    @precondition(lambda self: self.session is None)
    @rule(name=NAMES, share=st.floats(0, 1))
    def pages_are_lost(self, name: str, share: float) -> None:
        """Bad ones, which opening drops. What a crop left of a prefill cannot be computed again to the last bit."""
        if name in self.plain and not self.plain[name].cropped:
            cells = self.media[name].cells
            del cells[int(share * len(cells)) :]

    @precondition(lambda self: self.session is None)
    @rule(name=NAMES, every=st.sampled_from([0, 1, 3]))
    def open(self, name: str, every: int) -> None:
        if name not in self.plain:
            journal, _ = self.folder.create(name, "m", every=every)
            journal.close()
            self.plain[name], self.media[name] = Plain(), Medium()
        journal, found = self.folder.open(name, every=every)
        assert found.torn_nbytes == 0 or self.calls.faults
        self.name, self.network = name, FakeNetwork(self.media[name])
        self.session = SessionSteps(journal, found.state, self.network)

    @precondition(lambda self: self.session is not None)
    @rule(
        prompt=st.lists(st.integers(0, 999), min_size=1, max_size=9),
        count=st.integers(1, 8),
        chunk=st.sampled_from([0, 1, 3]),
        drawn=st.booleans(),
    )
    def say(self, prompt: list[int], count: int, chunk: int, drawn: bool) -> None:
        sampling = Sampling(0.5, seed=3) if drawn else Sampling()
        session, plain = self._open
        begun = False

        def turn(told: Callable[[int], None]) -> None:
            session.say(prompt, max_new_tokens=count, sampling=sampling, chunk=chunk, on_token=told)

        def begin() -> None:
            nonlocal begun
            begun = begun or plain.begin(prompt, count, chunk, sampling) is None

        self._turn(turn, begin)

    @precondition(lambda self: self.session is not None)
    @rule()
    def go_on(self) -> None:
        session, _ = self._open
        if session.unfinished is None:
            with pytest.raises(UserError, match="no turn is under way"):
                session.go_on()
            return
        self._turn(lambda told: session.go_on(on_token=told), lambda: None)

    @precondition(lambda self: self.session is not None)
    @rule(count=st.integers(1, 5), prompt=st.lists(st.integers(0, 999), min_size=1, max_size=9))
    def killed_in_a_turn(self, count: int, prompt: list[int]) -> None:
        """What was not on the medium is gone with the process; the journal's records are in the file."""
        session, plain = self._open
        self._calm()

        def told(token: int) -> None:
            assert token == plain.step()
            if plain.said >= count:
                raise _Killed

        plain.begin(prompt, 8, 0, Sampling())
        with pytest.raises(_Killed):
            session.say(prompt, max_new_tokens=8, sampling=Sampling(), on_token=told)
        self._dropped()

    @precondition(lambda self: self.session is not None)
    @rule(share=st.floats(0, 1), fails=st.booleans())
    def crop(self, share: float, fails: bool) -> None:
        session, plain = self._open
        self._calm()
        length = int(share * len(plain.tokens))
        if fails and self.network.cached > length:
            self.network.crop_fails = True
            with pytest.raises(DriverError, match="the crop failed"):
                session.crop(length)
        session.crop(length)
        plain.crop(length)

    @precondition(lambda self: self.session is not None)
    @rule(name=NAMES)
    def fork(self, name: str) -> None:
        _, plain = self._open
        self._calm()
        self.network.flush()
        header = self.folder.read(self.name).state.header
        assert header is not None
        if name in self.plain:
            with pytest.raises(UserError, match="there is a session"):
                self.folder.copy(header, name, "1" * 16)
            return
        self.folder.copy(header, name, "1" * 16)
        self.plain[name], self.media[name] = deepcopy(plain), Medium(list(self.media[self.name].cells))

    @precondition(lambda self: self.session is not None)
    @rule(forwards=st.integers(0, 6))
    def a_card_will_fail(self, forwards: int) -> None:
        self.network.fail_in = forwards

    @precondition(lambda self: self.session is not None)
    @rule(writes=st.integers(4, 9))
    def the_disk_will_be_full(self, writes: int) -> None:
        number = self.calls.calls["pwritev"] + writes
        self.calls.faults = [Fails("pwritev", errno.ENOSPC, first=number, last=number)]

    @precondition(lambda self: self.session is not None)
    @rule(flushed=st.booleans())
    def close(self, flushed: bool) -> None:
        session, _ = self._open
        if flushed:
            self.network.flush()
        session.close()
        self._dropped()

    @invariant()
    def the_tokens_are_those_of_the_list(self) -> None:
        if self.session is not None:
            assert list(self.session.tokens) == self.plain[self.name].tokens

    @property
    def _open(self) -> tuple[SessionSteps, Plain]:
        assert self.session is not None
        return self.session, self.plain[self.name]

    def _turn(self, turn: Callable[[Callable[[int], None]], None], begin: Callable[[], None]) -> None:
        """Runs a turn; what fails in it on the way may be gone on with."""
        session, plain = self._open
        before = len(plain.tokens)

        def told(token: int) -> None:
            begin()
            assert token == plain.step()

        try:
            turn(told)
        except DriverError:
            if len(session.tokens) > before:
                begin()
            elif session.unfinished is None:
                plain.left = plain.said = 0
            return
        assert plain.left == 0
        assert session.unfinished is None

    def _calm(self) -> None:
        """Faults that have not struck yet do not."""
        self.calls.faults, self.network.fail_in = [], None

    def _dropped(self) -> None:
        self._calm()
        self.session = None


TestSessions = SessionMachine.TestCase
TestSessions.settings = settings(max_examples=100, stateful_step_count=25)


@pytest.mark.soak
@pytest.mark.timeout(3600)
class TestManySessions(SessionMachine.TestCase):  # type: ignore[misc, name-defined]
    settings = settings(max_examples=3000, stateful_step_count=50, derandomize=False)
