# SPDX-License-Identifier: Apache-2.0
"""A fault anywhere in a session, of drive, card or journal: a typed error, nothing wrong served, and the same tokens in
the end."""

from __future__ import annotations

import errno
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path

import nearkv_driver.device
import pytest
from nearkv.kvstore import KVStore
from nearkv.session.folder import SEQUENCE_PREFIX, SessionFolder
from nearkv.session.steps import SessionSteps
from nearkv_driver.errors import DriverError
from nearkv_driver.regmap import PAGE_BYTES
from nearkv_driver.syscalls import SystemCalls
from nearkv_emulation.faults import CardFaults, FaultyTransport
from nearkv_emulation.storage_faults import Fails, FaultySyscalls, Short, StorageFault

from tests.support.held_writer import WriterAtOnce
from tests.support.store_network import StoreNetwork, next_token
from tests.support.stores import die, layout, urls

CARDS = 2
PROMPT, NEW = list(range(100, 170)), 60


class Conversation:
    """One turn of a session on real volumes, gone on with after whatever ended it."""

    def __init__(self, folder: Path, calls: FaultySyscalls, *, attends: bool = False, options: str = "") -> None:
        self.folder, self.calls, self._attends, self._options = folder, calls, attends, options
        self.told: list[int] = []
        self.wanted = list(PROMPT)
        for _ in range(NEW):
            self.wanted.append(next_token(self.wanted))

    def open(self, stack: ExitStack) -> SessionSteps:
        cards = urls(CARDS, self.folder, kernel="model", options=self._options)
        self.store = KVStore.open(layout(layers=1), cards, syscalls=self.calls, writer=WriterAtOnce)
        stack.callback(die, self.store)
        sessions = SessionFolder(self.folder / "card0", self.calls)
        if not sessions.exists("a"):
            sessions.create("a", self.store.layout.model)[0].close()
        journal, found = sessions.open("a")
        stack.callback(self._quietly, journal.close)
        header = found.state.header
        assert header is not None
        name = SEQUENCE_PREFIX + header.session
        known = name in self.store.names()
        sequence = self.store.open_sequence(name) if known else self.store.add_sequence(name)
        tokens = found.state.tokens[: self.store.length(sequence)]
        self.network = StoreNetwork(self.store, sequence, tokens, attends=self._attends)
        return SessionSteps(journal, found.state, self.network)

    def turn(self) -> None:
        """What is left of it, in a process of its own that ends as it may."""
        with ExitStack() as stack:
            session = self.open(stack)
            assert list(session.tokens[: len(self.told)]) == self.told
            session.restore()
            self.network.check(session.tokens[: self.network.cached])

            def told(_: int) -> None:
                self.told = list(session.tokens)

            if session.unfinished is None:
                session.say(PROMPT, max_new_tokens=NEW, on_token=told)
            else:
                session.go_on(on_token=told)
            self.store.flush()
            assert list(session.tokens) == self.wanted
            self.network.check(self.wanted[:-1])

    @staticmethod
    def _quietly(close: Callable[[], None]) -> None:
        with suppress(DriverError):
            close()


@pytest.fixture
def conversation(tmp_path: Path) -> Conversation:
    return Conversation(tmp_path, FaultySyscalls(SystemCalls()))


def fail(call: str, number: int, first: int) -> StorageFault:
    return Fails(call, number, first=first, last=first)


@pytest.mark.parametrize("at", [2, 9, 30, 61])
@pytest.mark.parametrize(
    ("call", "number"),
    [
        ("pwritev", errno.EIO),
        ("pwritev", errno.ENOSPC),
        ("pwritev", errno.EROFS),
        ("fdatasync", errno.EIO),
        ("fdatasync", errno.ENOSPC),
    ],
    ids=lambda v: errno.errorcode[v] if isinstance(v, int) else v,
)
def test_a_call_that_fails_once(conversation: Conversation, call: str, number: int, at: int) -> None:
    conversation.calls.faults = [fail(call, number, at)]
    with pytest.raises(DriverError, match=f"{errno.errorcode[number]}|bytes needed, [0-9]+ free"):
        conversation.turn()
    conversation.calls.faults = []
    conversation.turn()
    assert conversation.told == conversation.wanted


@pytest.mark.parametrize("fault", ["allocate", "preadv"])
def test_a_full_disk_and_a_page_that_cannot_be_read(conversation: Conversation, fault: str) -> None:
    number = errno.ENOSPC if fault == "allocate" else errno.EIO
    conversation.calls.faults = [Fails(fault, number, first=2, last=2)]
    with pytest.raises(DriverError, match="disk full" if fault == "allocate" else "EIO"):
        conversation.turn()
    conversation.calls.faults = []
    conversation.turn()


@pytest.mark.parametrize(
    "faults",
    [
        [Short("preadv", PAGE_BYTES, nth) for nth in (1, 2, 5)],
        [Short("pwritev", 17, nth) for nth in (3, 8)],  # of a journal's record
        [fail(call, errno.EINTR, nth) for call in ("pwritev", "preadv", "fdatasync") for nth in (1, 3, 7, 40)],
    ],
    ids=["short reads", "short writes", "EINTR"],
)
def test_what_is_no_fault_is_not_noticed(conversation: Conversation, faults: list[StorageFault]) -> None:
    conversation.calls.faults = list(faults)
    conversation.turn()


class Misdirects(FaultySyscalls):
    """The `nth` write of a page goes to the place behind its own, as a drive may do."""

    nth = 0

    def pwritev(self, fd: int, buffer: memoryview, offset: int) -> int:
        if self.calls["pwritev"] + 1 == self.nth and len(buffer) >= PAGE_BYTES:
            offset += PAGE_BYTES
        return super().pwritev(fd, buffer, offset)


def test_a_misdirected_write_is_never_served(tmp_path: Path) -> None:
    calls = Misdirects(SystemCalls())
    told: list[str] = []
    for nth in range(4, 90, 9):
        calls.nth, calls.calls["pwritev"] = nth, 0
        conversation = Conversation(tmp_path / str(nth), calls)
        conversation.folder.mkdir()
        try:
            conversation.turn()
        except DriverError as error:
            told.append(str(error))
    assert told
    assert all("differs from its checksum" in text for text in told)


def test_a_card_that_vanishes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    conversation = Conversation(tmp_path, FaultySyscalls(SystemCalls()), attends=True)
    with monkeypatch.context() as patch:
        inner = nearkv_driver.device.open_transport
        patch.setattr(
            nearkv_driver.device,
            "open_transport",
            lambda *given: FaultyTransport(inner(*given), CardFaults(gone_after_reads=60)),
        )
        with pytest.raises(DriverError, match="the card has left the bus"):
            conversation.turn()
    assert len(PROMPT) < len(conversation.told) < len(conversation.wanted)
    conversation.turn()


def test_a_slow_drive_only_takes_longer(tmp_path: Path) -> None:
    options = "&drive=read:200M,write:50M,latency:300"
    Conversation(tmp_path, FaultySyscalls(SystemCalls()), options=options).turn()


def test_a_lost_index_costs_time_and_no_token(conversation: Conversation, tmp_path: Path) -> None:
    conversation.turn()
    for card in range(CARDS):
        for path in (tmp_path / f"card{card}").glob("index.sqlite*"):
            path.unlink()
    with ExitStack() as stack:
        session = conversation.open(stack)
        assert session.restore().recomputed == len(conversation.wanted) - 1
        conversation.network.check(conversation.wanted[:-1])


def test_what_a_crash_left_without_its_name_is_removed_and_the_rest_is_left(tmp_path: Path) -> None:
    folder = tmp_path / "card0"
    with KVStore.open(layout(), urls(1, tmp_path, kernel="model")):
        pass
    (folder / "volume.json.new").write_text("{")
    (folder / "notes.txt").write_text("mine")
    sessions = SessionFolder(folder)
    sessions.create("a", "m")[0].close()
    (folder / "sessions" / "0123.journal.new").write_bytes(b"half")
    (folder / "sessions" / "notes.txt").write_text("mine")
    with KVStore.open(layout(), urls(1, tmp_path, kernel="model")):
        sessions.tidy()
    assert not list(folder.rglob("*.new"))
    assert len(list(folder.rglob("notes.txt"))) == 2
    assert [entry.error for entry in sessions.entries()] == [""]


def test_what_is_used_is_the_same_after_a_restart(conversation: Conversation) -> None:
    conversation.turn()
    with ExitStack() as stack:
        conversation.open(stack)
        used = [card.volume.used_nbytes for card in conversation.store._cards]
        assert all(nbytes > 0 for nbytes in used)
    with ExitStack() as stack:
        conversation.open(stack)
        assert [card.volume.used_nbytes for card in conversation.store._cards] == used
        size = [sum(f.stat().st_size for f in (conversation.folder / f"card{i}").glob("*.pages")) for i in range(CARDS)]
        free = [card.volume.free_nbytes for card in conversation.store._cards]
        assert [u + f for u, f in zip(used, free, strict=True)] == size
