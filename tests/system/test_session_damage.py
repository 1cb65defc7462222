# SPDX-License-Identifier: Apache-2.0
"""Sessions with a real model whose pages or journal are damaged: told, never used, and mended as asked."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from nearkv import copies
from nearkv.cli.entry import main
from nearkv.scrub import Scrubber
from nearkv.session.chat import Session
from nearkv.session.fit import JournalMisfit
from nearkv.session.folder import SessionFolder
from nearkv.volume_errors import PageMismatch, VolumeDamaged
from nearkv_driver.errors import DriverError

from tests.support.stored_sessions import arguments
from tests.support.tiny_sessions import WORDS, cards, command


def header_of(folder: Path, name: str) -> str:
    header = SessionFolder(folder / "card0").read(name).state.header
    assert header is not None
    return header.session


@pytest.mark.parametrize("repair", ["recompute", "drop"])
def test_a_bad_page_is_told_refused_and_repaired_as_asked(
    opened: Callable[..., Session], tmp_path: Path, repair: str
) -> None:
    with opened() as session:
        session.say(WORDS * 2, max_new_tokens=30, chat_template=False)
        tokens, trip = session.tokens, f"session:{session._parts.header.session}"
        session.fork("other")
    with opened("other") as session:
        wanted = session.say("on", max_new_tokens=9, chat_template=False).tokens
    with Scrubber(tmp_path / "card1") as scrubber:
        record = scrubber.record(trip)
        assert record is not None
        place = record.groups[0].slot * scrubber.layout.slot_nbytes + 2 * 4096 + 17  # tokens 64 and on, K of layer 0
    with (tmp_path / "card1" / "data-000000.pages").open("r+b") as file:
        file.seek(place)
        byte = file.read(1)[0]
        file.seek(place)
        file.write(bytes([byte ^ 8]))
    code, out, _ = command(tmp_path, "sessions", "verify", "trip")
    assert code == 1
    assert "layer 0, KV head 1, K, page of token 64: differs from its checksum" in out
    with pytest.raises(DriverError, match="crc"), opened(create=False) as session:
        session.say("on", max_new_tokens=9, chat_template=False)
    code, out, err = command(tmp_path, "sessions", "verify", "trip", "--repair", repair)
    assert code == 0, err
    assert command(tmp_path, "sessions", "verify", "trip")[0] == 0
    with opened(create=False) as session:
        if repair == "drop":
            assert session.tokens == tokens[:64]
        else:
            assert session.tokens[: len(tokens)] == tokens
            assert session.go_on().tokens == wanted  # the turn that the bad page stopped


def test_a_bad_last_page_is_computed_again_and_told(opened: Callable[..., Session], tmp_path: Path) -> None:
    """Opening checks the last unit itself, since a torn write is there if it is anywhere."""
    with opened() as session:
        session.say(WORDS * 2, max_new_tokens=30, chat_template=False)
        session.fork("other")
    with opened("other") as session:
        wanted = session.say("on", max_new_tokens=9, chat_template=False).tokens
    with Scrubber(tmp_path / "card1") as scrubber:
        record = scrubber.record(f"session:{header_of(tmp_path, 'trip')}")
        assert record is not None
        group, layout = record.groups[-1], scrubber.layout
        unit = (record.stored - 1) % 128 // layout.unit_tokens
        place = group.slot * layout.slot_nbytes + layout.extent_nbytes // 2 + unit * layout.unit_nbytes
    with (tmp_path / "card1" / "data-000000.pages").open("r+b") as file:
        file.seek(place)
        file.write(bytes(4096))
    code, out, _ = command(tmp_path, "sessions", "verify", "trip")
    assert (code, out.count("differs")) == (1, 1)
    with opened(create=False) as session:
        assert session.restored.lost > 0
        assert "differs from its checksum" in session.restored.reason
        assert session.say("on", max_new_tokens=9, chat_template=False).tokens == wanted
    assert command(tmp_path, "sessions", "verify", "trip")[0] == 0


def test_a_prefix_whose_last_page_is_bad_is_told_and_computed(opened: Callable[..., Session], tmp_path: Path) -> None:
    """A session that would begin with another one's pages says that it cannot, and its turn goes on without them."""
    with opened() as session:
        wanted = session.say(WORDS * 2, max_new_tokens=9, chat_template=False).tokens
    with Scrubber(tmp_path / "card1") as scrubber:
        record, layout = scrubber.record(f"session:{header_of(tmp_path, 'trip')}"), scrubber.layout
        assert record is not None
        place = record.groups[0].slot * layout.slot_nbytes + (layout.extent_units - 1) * layout.unit_nbytes
    with (tmp_path / "card1" / "data-000000.pages").open("r+b") as file:
        file.seek(place)
        file.write(bytes(4096))
    with opened("other") as session:
        with pytest.raises(PageMismatch, match=r"128 tokens .* are damaged.*page 3: differs"):
            session.say(WORDS * 2, max_new_tokens=9, chat_template=False)
        assert session.go_on().tokens == wanted


def test_a_damaged_journal_is_told_and_cut_when_asked(opened: Callable[..., Session], tmp_path: Path) -> None:
    with opened() as session:
        session.say(WORDS, max_new_tokens=30, chat_template=False)
        tokens = session.tokens
    path = SessionFolder(tmp_path / "card0").path_of("trip")
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 16
    path.write_bytes(data)
    with pytest.raises(VolumeDamaged, match=r"record [0-9]+ at byte [0-9]+ is damaged"):
        opened(create=False)
    code, out, err = command(tmp_path, "sessions", "verify", "trip", "--repair", "drop")
    assert (code, "bytes of its journal were damaged" in out) == (0, True), err
    with opened(create=False) as session:
        assert 0 < len(session.tokens) < len(tokens)
        assert session.tokens == tokens[: len(session.tokens)]
        assert session.go_on().tokens == tokens[-30:]


def test_a_crop_lost_with_a_damaged_journal_takes_its_rows_along(
    opened: Callable[..., Session], tmp_path: Path
) -> None:
    """What was said after the crop has K and V where the journal, cut before the crop, has other tokens."""
    with opened() as session:
        session.say(WORDS, max_new_tokens=60, chat_template=False)
        tokens = session.tokens
        session.crop(len(tokens) - 50)
        end = session._parts.journal._end
        session.say("quite another matter", max_new_tokens=60, chat_template=False)
        path = session._parts.journal.path
    data = bytearray(path.read_bytes())
    data[end - 1] ^= 1  # the crop's last byte
    path.write_bytes(data)
    code, _, err = command(tmp_path, "sessions", "verify", "trip", "--repair", "drop")
    assert code == 0, err
    with opened(create=False) as session:
        assert session.tokens == tokens
        # Up to the crop they are of the journal's tokens; a unit that the crop cut has them in its first rows.
        assert (session.restored.stored, session.restored.recomputed) == (len(tokens) - 50, 49)
        got = session.say("and then?", max_new_tokens=20, chat_template=False).tokens
    with opened("whole") as session:
        session.say(WORDS, max_new_tokens=60, chat_template=False)
        assert session.say("and then?", max_new_tokens=20, chat_template=False).tokens == got


@pytest.mark.parametrize("how", ["open", "fork", "verify", "export"])
@pytest.mark.parametrize("journal", ["torn", "cut", "older"])
def test_a_journal_that_lost_its_end_is_told_by_the_rows(
    opened: Callable[..., Session], tmp_path: Path, how: str, journal: str
) -> None:
    """Nothing in it says that there was more: it looks like what a crash leaves. The index has tokens that it lacks."""
    with opened() as session:
        session.say(WORDS, max_new_tokens=60, chat_template=False)
        tokens = session.tokens
        old, begins = session._parts.journal.path.read_bytes(), session._parts.journal._end
        session.crop(len(tokens) - 50)
        end = session._parts.journal._end
        session.say("quite another matter", max_new_tokens=60, chat_template=False)
        path, stored = session._parts.journal.path, len(session.tokens) - 1
    whole = path.read_bytes()
    bad = {
        "torn": whole[: end - 20] + bytes(len(whole) - end + 20),  # from within the crop on
        "cut": whole[:begins],
        "older": old,
    }[journal]
    path.write_bytes(bad)
    text = (
        f"K and V of {stored} tokens, the journal has {len(tokens)} tokens, and only the first {len(tokens) - 50} are"
    )
    if how == "export":
        file = str(tmp_path / "file")
        for step in (("export", "trip", file), ("import", file, "--name", "new")):
            code, _, err = command(tmp_path, "sessions", *step)
            assert code == 0, err
        with opened("new", create=False) as session:
            assert session.tokens == tokens
            assert (session.restored.stored, session.restored.recomputed) == (len(tokens) - 50, 49)
        return
    if how == "open":
        with pytest.raises(JournalMisfit, match=text):
            opened(create=False)
    else:
        code, out, err = command(tmp_path, "sessions", how, "trip", *(["new"] if how == "fork" else []))
        assert code == {"fork": 3, "verify": 1}[how]
        assert "not fit" in command(tmp_path, "sessions", "list")[1]
        assert text in out + err
    assert path.read_bytes() == bad  # refused before the torn end is cut off
    path.write_bytes(whole)
    with opened(create=False) as session:  # put back, it fits
        assert (session.restored.stored, session.restored.dropped) == (stored, 0)
    path.write_bytes(bad)
    code, out, err = command(tmp_path, "sessions", "verify", "trip", "--repair", "drop")
    assert code == 0, err
    dropped = stored - len(tokens) + 50
    assert f"has {len(tokens)} tokens now, and K and V of {dropped} that the journal does not have are dropped" in out
    with opened(create=False) as session:
        assert session.tokens == tokens
        assert (session.restored.stored, session.restored.recomputed) == (len(tokens) - 50, 49)
    assert command(tmp_path, "sessions", "verify", "trip")[0] == 0


def test_a_session_of_which_a_crash_left_some_heads_is_computed_again(
    opened: Callable[..., Session], tmp_path: Path
) -> None:
    with opened() as session:
        session.say(WORDS * 2, max_new_tokens=30, chat_template=False)
        session.fork("other")
        tokens = session.tokens
        store, name = session._parts.store, f"session:{session._parts.header.session}"
    with opened("other") as session:
        wanted = session.say("on", max_new_tokens=9, chat_template=False).tokens
        store = session._parts.store
        copies.remove(store._cards[1].volume, name)
    with opened(create=False) as session:
        assert session.tokens == tokens
        assert (session.restored.stored, session.restored.recomputed) == (0, len(tokens) - 1)
        assert "lacks KV heads" in session.restored.reason
        assert session.say("on", max_new_tokens=9, chat_template=False).tokens == wanted
    assert command(tmp_path, "sessions", "verify")[0] == 0


def test_a_prefix_of_which_a_crash_left_some_heads_is_not_shared(opened: Callable[..., Session]) -> None:
    with opened() as session:
        wanted = session.say(WORDS * 2, max_new_tokens=9, chat_template=False).tokens
        name = f"session:{session._parts.header.session}"
    with opened("other") as session:
        copies.remove(session._parts.store._cards[1].volume, name)
        reply = session.say(WORDS * 2, max_new_tokens=9, chat_template=False)
    assert (reply.shared_tokens, reply.tokens) == (0, wanted)


def test_an_older_copy_of_one_card_is_told_and_changes_nothing(
    opened: Callable[..., Session], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The other card's rows are of tokens that the older card's journal lacks. Its newer copy back, all is there."""
    card, old, new = (tmp_path / name for name in ("card0", "old", "new"))
    given = arguments(cards(tmp_path))
    with opened() as session:
        session.say(WORDS, max_new_tokens=20, chat_template=False)
        before = len(session.tokens)
    shutil.copytree(card, old)
    with opened() as session:
        session.say("on", max_new_tokens=60, chat_template=False)
        tokens = session.tokens
    card.rename(new)
    shutil.copytree(old, card)
    text = f"K and V of {len(tokens) - 1} tokens, the journal has {before} tokens, and only the first {before} are"
    for _ in range(2):
        with pytest.raises(JournalMisfit, match=text):
            opened(create=False)
    assert main(["sessions", "verify", *given]) == 1
    assert text in capfd.readouterr().out
    shutil.rmtree(card)
    new.rename(card)
    with opened(create=False) as session:
        assert (session.tokens, session.restored.recomputed) == (tokens, 0)
    shutil.rmtree(card)
    old.rename(card)
    assert main(["sessions", "verify", "trip", "--repair", "drop", *given]) == 0
    assert f"K and V of {len(tokens) - 1 - before} that" in capfd.readouterr().out
    with opened(create=False) as session:
        assert session.tokens == tokens[:before]
        assert session.restored.recomputed <= 1
