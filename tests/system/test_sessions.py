# SPDX-License-Identifier: Apache-2.0
"""Sessions with a real model and real volumes: what comes after a restart is what would have come without one."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from nearkv.errors import UserError
from nearkv.generate import generate
from nearkv.scrub import Scrubber
from nearkv.session.chat import Session
from nearkv.session.folder import SessionFolder
from nearkv.session.records import Sampling
from nearkv.session.store_folders import StoreFolders
from nearkv.session.watch import TurnWatch
from nearkv.volume_errors import VolumeBusy, VolumeDamaged
from nearkv_driver.errors import DriverError

from tests.support.cli import run
from tests.support.tiny_folder import tiny_folder

WORDS = "the quick brown fox jumps over the lazy dog and runs into the forest where nobody has been for many years "


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_folder(tmp_path_factory.mktemp("model") / "tiny")


def cards(folder: Path) -> list[str]:
    return [f"sw_emu:{i}?dram=64M&kernel=model&ssd={folder}/card{i}" for i in range(2)]


@pytest.fixture
def opened(model: Path, tmp_path: Path) -> Callable[..., Session]:
    def open_(name: str = "trip", folder: Path = tmp_path, **options: Any) -> Session:
        return Session.open(name, model=options.pop("model", model), cards=cards(folder), threads=1, **options)

    return open_


class _Killed(BaseException):
    pass


def die(session: Session) -> None:
    """As the end of the process would: nothing is flushed, nothing closed properly, the locks go."""
    session._parts.cache._release.detach()
    store = session._parts.store
    store._sequences.clear()
    store._dropped.detach()
    store._resources.close()


TURNS = [(WORDS * 2, 50), ("and then?", 40)]


def straight(opened: Callable[..., Session], folder: Path, sampling: Sampling) -> list[tuple[int, ...]]:
    folder.mkdir()
    with opened(folder=folder) as session:
        return [session.say(text, max_new_tokens=n, sampling=sampling).tokens for text, n in TURNS]


def killed_after(count: int, turn: Callable[..., object], patch: pytest.MonkeyPatch) -> None:
    """Runs a turn, which ends with its token number `count` in the journal and nothing after it done."""
    left = count

    def token(self: TurnWatch, token: int) -> None:
        nonlocal left
        left -= 1
        if not left:
            raise _Killed

    with patch.context() as patched:
        patched.setattr(TurnWatch, "token", token)
        with pytest.raises(_Killed):
            turn()


@pytest.mark.parametrize("sampling", [Sampling(), Sampling(1.5, seed=3)], ids=["greedy", "drawn"])
def test_exit_and_crash_change_no_token(
    opened: Callable[..., Session], tmp_path: Path, sampling: Sampling, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = straight(opened, tmp_path / "other", sampling)
    with opened() as session:
        assert session.say(TURNS[0][0], max_new_tokens=50, sampling=sampling).tokens == wanted[0]
    session = opened(create=False)
    assert session.restored.recomputed == 0  # closed properly: the partial unit is there
    turn = partial(session.say, TURNS[1][0], max_new_tokens=40, sampling=sampling)
    for count in (3, 19, 1):
        killed_after(count, turn, monkeypatch)
        die(session)
        session = opened(create=False)
        assert session.unfinished
        assert session.restored.recomputed < session._parts.layout.unit_tokens
        assert session.restored.dropped == 0
        turn = partial(session.go_on)
    with session:
        assert session.go_on().tokens == wanted[1]


def test_a_session_is_what_generate_gives(opened: Callable[..., Session], model: Path, tmp_path: Path) -> None:
    with opened() as session:
        got = session.say(WORDS, max_new_tokens=40, chat_template=False)
    result = (
        generate([WORDS], model=model, cards=cards(tmp_path / "no"), max_new_tokens=40, chat_template=False, threads=1)
        if ((tmp_path / "no").mkdir() is None)
        else None
    )
    assert result is not None
    assert got.tokens == result.tokens[0]
    assert got.text == result.texts[0]


def test_a_prefix_that_another_session_stored_is_shared(opened: Callable[..., Session], tmp_path: Path) -> None:
    with opened("a") as session:
        first = session.say(WORDS * 4, max_new_tokens=8, chat_template=False)
    assert first.shared_tokens == 0
    with opened("b") as session:
        reply = session.say(WORDS * 4 + "x", max_new_tokens=8, chat_template=False)
        assert reply.shared_tokens == first.prompt_tokens // 128 * 128
        assert reply.prompt_tokens + reply.shared_tokens == len(session.tokens) - 8
    with opened("c", share=False) as session:
        assert session.say(WORDS * 4, max_new_tokens=8, chat_template=False).shared_tokens == 0
    with opened("d", tenant="another") as session:
        assert session.say(WORDS * 4, max_new_tokens=8, chat_template=False).shared_tokens == 0
    with StoreFolders([tmp_path / "card0", tmp_path / "card1"]) as folders:
        assert [s.name for s in folders.summaries("default")] == ["a", "b", "c"]
        folders.remove("a")
    with opened("b", create=False) as session:
        session.say("more", max_new_tokens=3)  # its pages outlive the session that wrote them


def test_fork_and_crop_each_go_their_own_way(opened: Callable[..., Session]) -> None:
    with opened() as session:
        session.say(WORDS * 2, max_new_tokens=30, chat_template=False)
        tokens = session.tokens
        session.fork("other")
        with pytest.raises(UserError, match="already"):
            session.fork("other")
        session.crop(100)
        session.say("left", max_new_tokens=5, chat_template=False)
    with opened("other", create=False) as session:
        assert session.tokens == tokens
        assert session.restored.recomputed == 0
        right = session.say("right", max_new_tokens=9, chat_template=False)
    with opened(create=False) as session:
        assert session.tokens[:100] == tokens[:100]
        assert len(session.tokens) < len(tokens)
        session.crop(0)
        session.say(WORDS * 2, max_new_tokens=30, chat_template=False)
        assert session.tokens == tokens
        assert session.say("right", max_new_tokens=9, chat_template=False).tokens == right.tokens


def test_what_cannot_be_done_is_refused_and_makes_nothing(
    opened: Callable[..., Session], tmp_path: Path, model: Path
) -> None:
    with pytest.raises(UserError, match=r"no session 'trip'; known: none"):
        opened(create=False)
    with pytest.raises(UserError, match="ssd=FOLDER"):
        Session.open("trip", model=model, cards=["sw_emu:0"])
    with pytest.raises(UserError, match="journal_every = -1"):
        opened(journal_every=-1)
    for name in ("", " a", "a\n", "x" * 201, "\ud800"):
        with pytest.raises(UserError, match="session name"):
            opened(name)
    assert list(tmp_path.iterdir()) == []
    with opened("../../etc/passwd") as session:
        session.say("a", max_new_tokens=2)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["card0", "card1"]
    with opened("a") as session, pytest.raises(VolumeBusy):
        opened("b")
    with opened("b") as session:
        with pytest.raises(UserError, match="prompt 1 of 1 is empty"):
            session.say("  ")
        with pytest.raises(UserError, match="limit is 4096"):
            session.say("a", max_new_tokens=4096)
        with pytest.raises(UserError, match="no turn is under way"):
            session.go_on()


def test_the_volumes_of_another_model_are_refused(
    opened: Callable[..., Session], tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with opened() as session:
        session.say("a", max_new_tokens=2)
    other = tiny_folder(tmp_path_factory.mktemp("other") / "small", seed=8)
    with pytest.raises(UserError, match=r"holds model = 'tiny', this store has 'small'"):
        opened(model=other)


def command(tmp_path: Path, *arguments: str) -> tuple[int, str, str]:
    options = [part for card in cards(tmp_path) for part in ("--card", card)]
    done = run(tmp_path, *arguments, *options)
    return done.returncode, done.stdout, done.stderr


def test_the_commands(opened: Callable[..., Session], model: Path, tmp_path: Path) -> None:
    generate = ("generate", "--model", str(model), "--session", "trip", "--max-new-tokens", "9", "--json")
    code, out, err = command(tmp_path, *generate, "--prompt", WORDS)
    assert code == 0, err
    document = json.loads(out)
    assert document["session"]["tokens"] == document["prefill"]["tokens"] + len(document["tokens"][0])
    code, out, _ = command(tmp_path, "sessions", "list", "--json")
    (only,) = json.loads(out)
    assert (only["name"], only["turns"], only["tokens"]) == ("trip", 1, document["session"]["tokens"])
    assert command(tmp_path, "sessions", "fork", "trip", "copy")[0] == 0
    file = tmp_path / "trip.safetensors"
    assert command(tmp_path, "sessions", "export", "trip", str(file))[0] == 0
    assert command(tmp_path, "sessions", "import", str(file), "--name", "back")[0] == 0
    assert command(tmp_path, "sessions", "rm", "trip")[0] == 0
    code, out, _ = command(tmp_path, "sessions", "verify")
    assert (code, out.count(": good")) == (0, 2)
    wanted = None
    for name in ("back", "copy"):
        with opened(name, create=False) as session:
            assert session.restored.recomputed == 0
            tokens = session.say("on", max_new_tokens=9).tokens
        wanted = wanted or tokens
        assert tokens == wanted
    code, _, err = command(tmp_path, "sessions", "show", "trip")
    assert (code, err) == (2, "nearkv: error: there is no session 'trip'; known: 'back', 'copy'\n")


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


def header_of(folder: Path, name: str) -> str:
    header = SessionFolder(folder / "card0").read(name).state.header
    assert header is not None
    return header.session


def test_a_session_whose_k_and_v_had_to_go_is_computed_again(model: Path, tmp_path: Path) -> None:
    slots = 16 * 2 * 2 * 128 * 128  # of one KV head, two layers
    options = [card + f"&evict=lru&quota={slots // 4}" for card in cards(tmp_path)]
    wanted: dict[str, tuple[int, ...]] = {}
    for name in "abcdefab":
        with Session.open(name, model=model, cards=options, threads=1, share=False) as session:
            assert session.tokens == wanted.get(name, ())
            session.say(WORDS * 2 + name, max_new_tokens=5, chat_template=False)
            wanted[name] = session.tokens
            evicted = session.stats().evicted
    assert evicted
    with StoreFolders([tmp_path / "card0", tmp_path / "card1"]) as folders:
        assert [s.name for s in folders.summaries()] == sorted(wanted)
        assert 0 in [s.stored_tokens for s in folders.summaries()]


def test_a_tenant_stays_below_its_quota(opened: Callable[..., Session], tmp_path: Path) -> None:
    with opened("first", tenant="small") as session:
        session.say("a", max_new_tokens=2)
    (tmp_path / "card0" / "sessions" / "tenants.toml").write_text('[small]\nquota = "512K"\n')
    with opened("second", tenant="small") as session:
        with pytest.raises(UserError, match=r"tenant 'small' may have 512\.0 KiB"):
            session.say("a", max_new_tokens=900)
        assert session.tokens == ()
        session.say("a", max_new_tokens=2)
    with opened("third", tenant="other") as session:
        session.say("a", max_new_tokens=300)


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
        assert (session.restored.stored, session.restored.recomputed) == (0, len(tokens) - 1)
        got = session.say("and then?", max_new_tokens=20, chat_template=False).tokens
    with opened("whole") as session:
        session.say(WORDS, max_new_tokens=60, chat_template=False)
        assert session.say("and then?", max_new_tokens=20, chat_template=False).tokens == got


def test_other_weights_of_the_same_name_are_refused_and_share_nothing(
    opened: Callable[..., Session], tmp_path: Path
) -> None:
    with opened() as session:
        mine = session.say(WORDS * 2, max_new_tokens=5, chat_template=False)
        session.fork("forked")
    (tmp_path / "other").mkdir()
    other = tiny_folder(tmp_path / "other" / "tiny", seed=8)
    for name in ("trip", "forked"):
        with pytest.raises(UserError, match=f"'{name}' was made with other weights that are named 'tiny' too"):
            opened(name, model=other)
    with opened("new", model=other) as session:
        reply = session.say(WORDS * 2, max_new_tokens=5, chat_template=False)
    assert (reply.shared_tokens, reply.tokens == mine.tokens) == (0, False)
    with opened("again") as session:
        assert session.say(WORDS * 2, max_new_tokens=5, chat_template=False).shared_tokens == 128


@pytest.mark.parametrize("how", ["open", "fork", "export"])
def test_a_crop_lost_with_the_journals_end_takes_its_rows_along(
    opened: Callable[..., Session], tmp_path: Path, how: str
) -> None:
    """Nothing whole behind the damage says that it had been durable, so it looks like what a crash tore."""
    with opened() as session:
        session.say(WORDS, max_new_tokens=60, chat_template=False)
        tokens = session.tokens
        session.crop(len(tokens) - 50)
        end = session._parts.journal._end
        session.say("quite another matter", max_new_tokens=60, chat_template=False)
        path = session._parts.journal.path
    data = bytearray(path.read_bytes())
    data[end - 20 :] = bytes(len(data) - end + 20)  # from within the crop on
    path.write_bytes(data)
    name = "trip"
    if how != "open":
        steps = {
            "fork": [("fork", "trip", "new")],
            "export": [("export", "trip", str(tmp_path / "file")), ("import", str(tmp_path / "file"), "--name", "new")],
        }
        for step in steps[how]:
            code, _, err = command(tmp_path, "sessions", *step)
            assert code == 0, err
        name = "new"
    with opened(name, create=False) as session:
        assert session.tokens == tokens
        assert (session.restored.stored, session.restored.recomputed) == (0, len(tokens) - 1)
