# SPDX-License-Identifier: Apache-2.0
"""A session that is cut off anywhere goes on as if it had not been."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from nearkv.errors import UserError
from nearkv.session import frames
from nearkv.session import journal as journal_module
from nearkv.session.fit import JournalMisfit
from nearkv.session.journal import Journal
from nearkv.session.records import Header, Sampling
from nearkv.session.state import SessionState
from nearkv.session.steps import SessionSteps
from nearkv_driver.errors import DriverError, StorageError
from nearkv_driver.syscalls import SystemCalls
from nearkv_emulation.storage_faults import Fails, FaultySyscalls

from tests.support.session_networks import FakeNetwork, Medium

HEADER = Header("trip", "default", "0123456789abcdef", "tiny", "2026-01-02T03:04:05Z")


class _Killed(BaseException):
    pass


def _opened(
    path: Path, medium: Medium, calls: FaultySyscalls | None = None, every: int = 1
) -> tuple[SessionSteps, FakeNetwork]:
    network = FakeNetwork(medium)
    if not path.exists():
        Journal.create(path, HEADER).close()
    journal, found = Journal.open(path, every=every, syscalls=calls)
    return SessionSteps(journal, found.state, network), network


def _straight(path: Path, sampling: Sampling, prompts: list[list[int]]) -> list[tuple[int, ...]]:
    session, _ = _opened(path, Medium())
    with session:
        return [session.say(p, max_new_tokens=9, sampling=sampling, chunk=3).tokens for p in prompts]


@pytest.mark.parametrize("sampling", [Sampling(), Sampling(temperature=0.7, seed=5)], ids=["greedy", "drawn"])
def test_killed_after_every_token_it_gives_the_same_tokens(tmp_path: Path, sampling: Sampling) -> None:
    prompts = [[1, 2, 3, 4, 5, 6, 7], [8], [9, 10]]
    wanted = _straight(tmp_path / "a.journal", sampling, prompts)
    path, medium, got = tmp_path / "b.journal", Medium(), []

    def kill(_: int) -> None:
        raise _Killed

    for prompt in prompts:
        session, network = _opened(path, medium)
        with pytest.raises(_Killed):
            session.say(prompt, max_new_tokens=9, sampling=sampling, chunk=3, on_token=kill)
        for _ in range(8):
            session, network = _opened(path, medium)  # what was not durable is gone
            with pytest.raises(_Killed):
                session.go_on(on_token=kill)
        session, network = _opened(path, medium)
        got.append(session.go_on(on_token=kill).tokens)
        assert network.forwards < 9  # a tail of less than a unit, no prefill
    assert got == wanted


def test_opening_tells_what_it_had_to_do(tmp_path: Path) -> None:
    path, medium = tmp_path / "a.journal", Medium()
    session, _ = _opened(path, medium)
    session.say([1, 2, 3, 4, 5], max_new_tokens=6)
    session.close()
    session, network = _opened(path, medium)
    restored = session.restore()
    assert (restored.stored, restored.recomputed, restored.dropped) == (8, 2, 0)
    assert network.cached == 10
    assert len(session.tokens) == 11
    session.restore()
    assert network.forwards == 2


def test_a_power_cut_takes_no_token_whose_k_and_v_are_durable(tmp_path: Path) -> None:
    path, medium, calls = tmp_path / "a.journal", Medium(), FaultySyscalls(SystemCalls())
    session, _ = _opened(path, medium, calls, every=0)
    count = 0

    def kill(_: int) -> None:
        nonlocal count
        count += 1
        if count == 8:
            raise _Killed

    with pytest.raises(_Killed):
        session.say([1, 2, 3], max_new_tokens=9, on_token=kill)
    calls.lose_unsynced()  # a power cut: no token is synced by itself, two units of the cache are durable
    assert len(medium.cells) == 8
    session, _ = _opened(path, medium)
    assert len(session.tokens) == 8
    restored = session.restore()
    assert (restored.stored, restored.recomputed, restored.dropped) == (7, 0, 1)
    assert session.go_on().tokens == _straight(tmp_path / "b.journal", Sampling(), [[1, 2, 3]])[0]


def _with_two_branches(path: Path, medium: Medium) -> tuple[bytes, list[int]]:
    """A session that was cropped and went on otherwise; its journal from before that, and where its records end."""
    session, network = _opened(path, medium)
    session.say([1, 2, 3, 4, 5], max_new_tokens=9)
    session.close()
    old = path.read_bytes()
    session, network = _opened(path, medium)
    session.crop(6)
    session.say([7, 7], max_new_tokens=9)
    network.flush()
    session.close()
    return old, [frame.end for frame in frames.scan(path.read_bytes()).frames]


@pytest.mark.parametrize("act", ["restore", "say", "go_on", "crop"])
def test_an_older_journal_is_refused_before_anything_is_changed(tmp_path: Path, act: str) -> None:
    path, medium = tmp_path / "a.journal", Medium()
    old, _ = _with_two_branches(path, medium)
    new, cells = path.read_bytes(), list(medium.cells)
    path.write_bytes(old)
    session, network = _opened(path, medium)
    acts = {
        "restore": session.restore,
        "say": lambda: session.say([1], max_new_tokens=1),
        "go_on": session.go_on,
        "crop": lambda: session.crop(0),
    }
    with pytest.raises(JournalMisfit) as caught:
        acts[act]()
    error = caught.value
    assert (error.stored, error.tokens, error.alike) == (16, 14, 6)
    assert "K and V of 16 tokens, the journal has 14 tokens, and only the first 6 are the same" in str(error)
    session.close()
    assert (path.read_bytes(), medium.cells, network.forwards) == (old, cells, 0)
    path.write_bytes(new)  # and the newer one works as if nothing had been
    session, network = _opened(path, medium)
    assert session.restore().stored == 16
    assert len(session.tokens) == 17


def test_a_journal_cut_between_two_records_is_refused_wherever_rows_tell(tmp_path: Path) -> None:
    path, medium = tmp_path / "a.journal", Medium()
    _, ends = _with_two_branches(path, medium)
    whole, seen = path.read_bytes(), []
    for end in ends:
        path.write_bytes(whole[:end])
        session, network = _opened(path, Medium(list(medium.cells)))
        try:
            session.restore()
        except JournalMisfit:
            seen.append(len(session.tokens))
            continue
        finally:
            session.close()
        assert network.held == list(session.tokens[: len(network.held)])
    # Only the records behind the sixteenth token may be missing: the seventeenth has no K and V yet.
    assert len(seen) == len(ends) - 4


@pytest.mark.parametrize("at", range(6))
def test_a_failing_card_costs_no_token(tmp_path: Path, at: int) -> None:
    session, network = _opened(tmp_path / "a.journal", Medium())
    network.fail_in = at
    with pytest.raises(DriverError, match="the card failed"):
        session.say([1, 2, 3, 4, 5, 6, 7], max_new_tokens=9, chunk=3)
    (wanted,) = _straight(tmp_path / "b.journal", Sampling(), [[1, 2, 3, 4, 5, 6, 7]])
    assert session.go_on().tokens == wanted


def _interrupt(patch: pytest.MonkeyPatch, where: type, name: str, at: int, *, before: bool) -> None:
    """Ctrl-C at the call number `at` of a method."""
    call, count = getattr(where, name), 0

    def interrupted(self: object, *values: object) -> object:
        nonlocal count
        count += 1
        if count == at and before:
            raise KeyboardInterrupt
        result = call(self, *values)
        if count == at:
            raise KeyboardInterrupt
        return result

    patch.setattr(where, name, interrupted)


@pytest.mark.parametrize("at", range(1, 9))
@pytest.mark.parametrize("before", [False, True])
@pytest.mark.parametrize(
    ("where", "name"), [(Journal, "append"), (Journal, "sync"), (SessionState, "take"), (FakeNetwork, "forward")]
)
def test_ctrl_c_anywhere_costs_and_doubles_no_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: type, name: str, before: bool, at: int
) -> None:
    """As in a notebook, where the session stays open: it goes on, and opens again."""
    prompts = [[1, 2, 3, 4, 5, 6, 7], [8, 9]]
    wanted = _straight(tmp_path / "a.journal", Sampling(), prompts)
    path, medium = tmp_path / "b.journal", Medium()
    session, _ = _opened(path, medium)
    with monkeypatch.context() as patched:
        _interrupt(patched, where, name, at, before=before)
        with pytest.raises(KeyboardInterrupt):
            session.say(prompts[0], max_new_tokens=9, sampling=Sampling(), chunk=3)
    if session.unfinished is None:  # before the prompt
        session.say(prompts[0], max_new_tokens=9, sampling=Sampling(), chunk=3)
    else:
        assert session.go_on().tokens == wanted[0]
    assert session.say(prompts[1], max_new_tokens=9, chunk=3).tokens == wanted[1]
    tokens = session.tokens
    session.close()
    session, _ = _opened(path, medium)
    assert session.tokens == tokens == (*prompts[0], *wanted[0], *prompts[1], *wanted[1])


def test_a_record_whose_sync_failed_is_not_taken(tmp_path: Path) -> None:
    calls = FaultySyscalls(SystemCalls())
    session, _ = _opened(tmp_path / "a.journal", Medium(), calls)
    calls.faults = [Fails("fdatasync", 5, first=calls.calls["fdatasync"] + 4, last=calls.calls["fdatasync"] + 4)]
    with pytest.raises(StorageError, match="sync failed"):
        session.say([1, 2, 3], max_new_tokens=9)
    assert len(session.tokens) == 3 + 1
    with pytest.raises(StorageError, match="an earlier sync failed"):
        session.go_on()


def test_a_full_disk_costs_no_token(tmp_path: Path) -> None:
    calls = FaultySyscalls(SystemCalls())
    session, _ = _opened(tmp_path / "a.journal", Medium(), calls)
    calls.faults = [Fails("pwritev", 28, first=calls.calls["pwritev"] + 5, last=calls.calls["pwritev"] + 5)]
    with pytest.raises(StorageError, match="ENOSPC"):
        session.say([1, 2, 3], max_new_tokens=9)
    assert session.go_on().tokens == _straight(tmp_path / "b.journal", Sampling(), [[1, 2, 3]])[0]


def test_an_end_token_ends_the_turn(tmp_path: Path) -> None:
    session, _ = _opened(tmp_path / "a.journal", Medium())
    (tokens,) = _straight(tmp_path / "b.journal", Sampling(), [[1, 2, 3]])
    reply = session.say([1, 2, 3], max_new_tokens=9, ends={tokens[3]})
    assert (reply.tokens, reply.reason) == (tokens[:4], "end")
    assert session.unfinished is None
    assert session.turns == 1
    with pytest.raises(UserError, match="no turn is under way"):
        session.go_on()


def test_a_new_prompt_ends_a_turn_that_was_cut_off(tmp_path: Path) -> None:
    path, medium = tmp_path / "a.journal", Medium()
    session, network = _opened(path, medium)
    network.fail_in = 0
    with pytest.raises(DriverError):
        session.say([1, 2, 3], max_new_tokens=9)
    assert session.unfinished is not None
    reply = session.say([4], max_new_tokens=2)
    assert session.tokens == (1, 2, 3, 4, *reply.tokens)


def test_crop_and_then_another_way(tmp_path: Path) -> None:
    path, medium = tmp_path / "a.journal", Medium()
    session, network = _opened(path, medium)
    session.say([1, 2, 3, 4, 5], max_new_tokens=9)
    network.crop_fails = True
    with pytest.raises(DriverError, match="the crop failed"):
        session.crop(6)
    assert len(session.tokens) == 14
    session.crop(6)
    assert len(session.tokens) == 6
    other = session.say([7, 7], max_new_tokens=5).tokens
    session, network = _opened(path, medium)
    session.restore()
    assert [token for token, _ in network.cells] == list(session.tokens[:-1])
    assert session.tokens[8:] == other


@pytest.mark.parametrize("length", [-1, 12, True, 1.0], ids=str)
def test_a_crop_out_of_range_changes_nothing(tmp_path: Path, length: int) -> None:
    session, network = _opened(tmp_path / "a.journal", Medium())
    session.say([1, 2], max_new_tokens=9)
    with pytest.raises(UserError, match=r"cropped to .*; it has 11 tokens"):
        session.crop(length)
    assert (len(session.tokens), network.cached) == (11, 10)


@pytest.mark.parametrize("prompt", [[], [-1], [1 << 32], [1.5], [True]], ids=str)
def test_a_bad_prompt_is_refused_before_anything_is_written(tmp_path: Path, prompt: list[int]) -> None:
    path = tmp_path / "a.journal"
    session, network = _opened(path, Medium())
    before = path.read_bytes()
    with pytest.raises(UserError, match="the prompt has"):
        session.say(prompt, max_new_tokens=1)
    with pytest.raises(ValueError, match="max_new_tokens = 0"):
        session.say([1], max_new_tokens=0)
    with pytest.raises(TypeError, match="sampling is of type dict"):
        session.say([1], max_new_tokens=1, sampling={"temperature": 1.0})  # type: ignore[arg-type]
    assert path.read_bytes() == before
    assert network.forwards == 0
    session.close()
    with pytest.raises(UserError, match="closed"):
        session.say([1], max_new_tokens=1)


def test_a_crop_into_a_prefill_that_is_lost_computes_it_first(tmp_path: Path) -> None:
    """Afterwards its tokens are gone, and K and V to the last bit with them."""
    path, medium = tmp_path / "a.journal", Medium()
    session, _ = _opened(path, medium)
    session.say([1, 2, 3, 4, 5], max_new_tokens=2)
    cells = list(medium.cells)
    medium.cells.clear()  # the pages are bad
    session, network = _opened(path, medium)
    session.crop(3)
    assert network.cells == cells[:3]
    assert session.tokens == (1, 2, 3)


def test_a_turn_that_the_journal_may_have_no_room_for_is_not_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal_module, "NBYTES_MAX", 2000)
    path = tmp_path / "a.journal"
    session, _ = _opened(path, Medium())
    with session:
        before = path.read_bytes()
        with pytest.raises(UserError, match=r"at most 2,000 are read again.*go on in a new session"):
            session.say([1, 2, 3], max_new_tokens=70)
        assert path.read_bytes() == before
        reply = session.say([1, 2, 3], max_new_tokens=50)
        assert len(reply.tokens) == 50


@pytest.mark.parametrize(
    "call",
    [
        lambda session: session.crop(2),
        lambda session: session.say([5], max_new_tokens=2),
        lambda session: session.go_on(),
        lambda session: session.close(),
    ],
    ids=["crop", "say", "go on", "close"],
)
def test_who_hears_of_a_token_may_not_change_the_session(
    tmp_path: Path, call: Callable[[SessionSteps], object]
) -> None:
    """The turn is refused to go on, and what the call did holds: a token at the wrong place would spoil the journal."""
    path, medium = tmp_path / "a.journal", Medium()
    session, _ = _opened(path, medium)
    heard = []

    def change(token: int) -> None:
        heard.append(token)
        if len(heard) == 3:
            call(session)

    with session, pytest.raises(UserError, match=r"changed the session|is closed"):
        session.say([1, 2, 3], max_new_tokens=9, on_token=change)
    tokens = session.tokens
    again, _ = _opened(path, medium)
    with again:
        assert again.tokens == tokens
        assert len(again.say([4], max_new_tokens=3).tokens) == 3


def test_another_thread_may_look_while_a_token_is_written(tmp_path: Path) -> None:
    """It waits for the record to be whole, and the turn does not see it."""
    [wanted] = _straight(tmp_path / "a.journal", Sampling(), [[1, 2, 3]])
    seen: list[tuple[int, ...]] = []
    looking: list[threading.Thread] = []

    class Looked(SystemCalls):
        syncs = 0

        def fdatasync(self, fd: int) -> None:
            self.syncs += 1
            super().fdatasync(fd)
            if self.syncs == 6:
                looking.append(threading.Thread(target=lambda: seen.append(session.tokens)))
                looking[0].start()
                looking[0].join(timeout=0.2)  # without waiting for the record it is through by then

    Journal.create(tmp_path / "b.journal", HEADER).close()
    journal, found = Journal.open(tmp_path / "b.journal", syscalls=Looked())
    session = SessionSteps(journal, found.state, FakeNetwork(Medium()))
    with session:
        assert session.say([1, 2, 3], max_new_tokens=9, chunk=3).tokens == wanted
    looking[0].join()
    assert seen == [session.tokens[: len(seen[0])]]
    assert len(seen[0]) > 3
