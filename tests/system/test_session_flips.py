# SPDX-License-Identifier: Apache-2.0
"""One flipped bit anywhere in a session's files: it is told or changes nothing that counts; no wrong row is served."""

from __future__ import annotations

import random
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from nearkv.errors import UserError
from nearkv.kvstore import KVStore
from nearkv.session.folder import SEQUENCE_PREFIX, SessionFolder
from nearkv.session.frames import scan
from nearkv.session.steps import SessionSteps
from nearkv_driver.errors import DriverError
from nearkv_driver.regmap import PAGE_BYTES

from tests.support.held_writer import WriterAtOnce
from tests.support.store_network import StoreNetwork
from tests.support.stores import layout, urls

CARDS = 2


def opened(folder: Path) -> KVStore:
    # What is read is what matters here, not from which kind of drive.
    cards = [url.replace("dram=64M", "dram=4M") for url in urls(CARDS, folder, kernel="model", options="&io=buffered")]
    return KVStore.open(layout(layers=1), cards, writer=WriterAtOnce)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else tmp_path) as made:
        yield Path(made)


class Subject:
    """Two sessions that share an extent, and what flips a bit of their files and looks."""

    def __init__(self, folder: Path) -> None:
        self.good, self.after = folder / "good", folder / "after"
        self.good.mkdir()
        self.tokens: dict[str, list[int]] = {}
        self.sequences: dict[str, str] = {}
        with opened(self.good) as store:
            sessions = SessionFolder(self.good / "card0")
            for name in ("a", "b"):
                journal, header = sessions.create(name, store.layout.model)
                self.sequences[name] = SEQUENCE_PREFIX + header.session
                keys = [b"k"] if name == "b" else []
                sequence = store.add_sequence(self.sequences[name], keys=keys)
                shared = store.length(sequence)
                with journal:
                    known = self.tokens["a"][:shared] if shared else []
                    network = StoreNetwork(store, sequence, known, attends=False)
                    session = SessionSteps(journal, sessions.read(name).state, network)
                    first = self.tokens["a"][:140] if shared else list(range(140))
                    session.say(first, max_new_tokens=35, adopted=shared)
                    session.say([7, 8, 9], max_new_tokens=9)
                    self.tokens[name] = list(session.tokens)
                store.label(sequence, [b"k"])
        self.files = [
            path
            for path in sorted(self.good.rglob("*"))
            if path.is_file() and path.name != "lock" and path.stat().st_size
        ]

    def flip(self, chooser: random.Random) -> tuple[Path, int, int]:
        """A bit of a page that counts for half of all flips, else of any other file."""
        pages = [path for path in self.files if path.suffix == ".pages"]
        path = chooser.choice(pages if chooser.random() < 0.4 else [p for p in self.files if p not in pages])
        offset = chooser.randrange(path.stat().st_size)
        return path.relative_to(self.good), offset, chooser.randrange(8)

    def look(self, path: Path, offset: int, bit: int) -> str:
        """What comes of the flip: "told", or "harmless"."""

        def flip(data: bytearray) -> None:
            data[offset] ^= 1 << bit

        return self.changed(path, flip)

    def changed(self, path: Path, change: Callable[[bytearray], None], *, may_lack: int = 0) -> str:
        """What comes of any other change of a file. `may_lack`: so many tokens may be missing without a word."""
        shutil.rmtree(self.after, ignore_errors=True)
        shutil.copytree(self.good, self.after)
        data = bytearray((self.after / path).read_bytes())
        change(data)
        (self.after / path).write_bytes(data)
        try:
            with opened(self.after) as store:
                return self._look(store, may_lack)
        except (DriverError, UserError):
            return "told"

    def _look(self, store: KVStore, may_lack: int) -> str:
        sessions = SessionFolder(self.after / "card0")
        told = ""
        for name, tokens in self.tokens.items():
            journal, found = sessions.open(name)
            with journal:
                if self.sequences[name] not in store.names():
                    told = "told"  # all of it is computed again
                    continue
                sequence = store.open_sequence(self.sequences[name])
                info = store.info(sequence)
                network = StoreNetwork(store, sequence, found.state.tokens[: store.length(sequence)], attends=False)
                SessionSteps(journal, found.state, network).restore()
                network.check(found.state.tokens[: found.state.cached])
                cut = len(found.state.tokens) < len(tokens)
                assert found.state.tokens == tokens[: len(found.state.tokens)]
                assert found.torn_nbytes or len(tokens) - len(found.state.tokens) <= may_lack
                if cut or info.dropped_tokens or found.torn_nbytes:
                    told = "told"
        return told or "harmless"


def flip_many(folder: Path, count: int, seed: int) -> Counter[str]:
    subject, chooser = Subject(folder), random.Random(seed)
    seen: Counter[str] = Counter()
    for _ in range(count):
        path, offset, bit = subject.flip(chooser)
        try:
            seen[f"{path.suffix} {subject.look(path, offset, bit)}"] += 1
        except BaseException as error:
            error.add_note(f"bit {bit} of byte {offset} of {path}")
            raise
    return seen


def test_a_thousand_flipped_bits_are_told_or_harmless(folder: Path) -> None:
    seen = flip_many(folder, 1000, seed=1)
    assert seen[".pages told"] > 30
    assert seen[".journal harmless"] == 0
    assert seen[".sqlite told"] > 0


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_ten_thousand_flipped_bits(folder: Path) -> None:
    assert flip_many(folder, 10_000, seed=2).total() == 10_000


def test_a_journal_cut_between_two_records_is_told(folder: Path) -> None:
    """Nothing in it shows the cut: the index has the tokens that it lacks, but for the newest, which has no rows."""
    subject = Subject(folder)
    for path in sorted((subject.good / "card0" / "sessions").glob("*.journal")):
        ends = [frame.end for frame in scan(path.read_bytes()).frames]
        seen = []
        for end in ends[1:]:

            def cut(data: bytearray, end: int = end) -> None:
                del data[end:]

            seen.append(subject.changed(path.relative_to(subject.good), cut, may_lack=1))
        # The newest token, the turn's end, the mark.
        assert (set(seen[:-4]), set(seen[-4:])) == ({"told"}, {"harmless", "told"})
        assert seen[-3:] == ["harmless"] * 3


def test_a_page_that_is_served_is_checked(folder: Path) -> None:
    """The same with a bit of a page in the middle, which opening does not read by itself."""
    subject = Subject(folder)
    path = Path("card1/data-000000.pages")
    found = [subject.look(path, page * PAGE_BYTES + 77, 3) for page in range(8)]
    assert found.count("told") >= 4
