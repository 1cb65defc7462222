# SPDX-License-Identifier: Apache-2.0
"""Sessions with a real model and real volumes: what comes after a restart is what would have come without one."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from nearkv.cli import main
from nearkv.errors import UserError
from nearkv.generate import generate
from nearkv.kvstore import KVStore
from nearkv.layout import ModelLayout
from nearkv.models.fingerprint import weights_fingerprint
from nearkv.models.tensors import save_tensors
from nearkv.session.chat import Session
from nearkv.session.journal_reading import pack_records
from nearkv.session.records import Sampling
from nearkv.session.store_folders import StoreFolders
from nearkv.session.transfer import SessionFile
from nearkv.session.watch import TurnWatch
from nearkv.volume_errors import VolumeBusy
from nearkv_driver.checksum import crc32c

from tests.support.stored_sessions import arguments
from tests.support.tiny_folder import tiny_folder
from tests.support.tiny_sessions import WORDS, cards, command, die

LAYOUT = ModelLayout("tiny", 2, 4, 2, 64)


class _Killed(BaseException):
    pass


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


def test_a_prompt_that_shares_a_prefix_is_in_the_journal_before_it_does(
    opened: Callable[..., Session], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A crash on the way leaves no rows of tokens that the journal lacks."""
    with opened("a") as session:
        session.say(WORDS * 4, max_new_tokens=8, chat_template=False)
    session = opened("b")
    with monkeypatch.context() as patched:
        patched.setattr(KVStore, "add_sequence", _raise_killed)
        with pytest.raises(_Killed):
            session.say(WORDS * 4 + "x", max_new_tokens=8, chat_template=False)
    die(session)
    with opened("b", create=False) as session:
        assert session.unfinished
        assert session.restored.dropped == 0
        got = session.go_on().tokens
    with opened("c", share=False) as session:
        assert session.say(WORDS * 4 + "x", max_new_tokens=8, chat_template=False).tokens == got


def test_a_crop_before_a_shared_prefix_was_taken_over(
    opened: Callable[..., Session], monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened("a") as session:
        session.say(WORDS * 4, max_new_tokens=8, chat_template=False)
    with opened("b") as session:
        with monkeypatch.context() as patched:
            patched.setattr(KVStore, "add_sequence", _raise_killed)
            with pytest.raises(_Killed):
                session.say(WORDS * 4, max_new_tokens=8, chat_template=False)
        session.crop(100)
        got = session.say("x", max_new_tokens=8, chat_template=False).tokens
        assert len(session.tokens) == 100 + 1 + 8
        tokens = session.tokens
    with opened("b", create=False) as session:
        assert (session.tokens, session.restored.recomputed) == (tokens, 0)
    assert got == tokens[-8:]


def _raise_killed(*_: object, **__: object) -> None:
    raise _Killed


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
    toml, before = tmp_path / "card0" / "sessions" / "tenants.toml", sorted(tmp_path.rglob("*.journal"))
    toml.write_text('[other]\nquota = "1M"\n')  # 512 KiB are charged for its session already, and a fork as much
    with opened("third", tenant="other") as session:
        session.fork("fourth")
        with pytest.raises(UserError, match=r"take 1\.0 MiB and this one would take up to 512\.0 KiB"):
            session.fork("fifth")
    for how in ("fork", "import"):
        if how == "import":
            assert command(tmp_path, "sessions", "export", "third", str(tmp_path / "file"), "--tenant", "other")[0] == 0
        step = ("fork", "third", "fifth") if how == "fork" else ("import", str(tmp_path / "file"), "--name", "fifth")
        code, _, err = command(tmp_path, "sessions", *step, "--tenant", "other")
        assert (code, "tenant 'other' may have 1.0 MiB" in err) == (2, True), err
    assert len(list(tmp_path.rglob("*.journal"))) == len(before) + 1
    with StoreFolders([tmp_path / "card0", tmp_path / "card1"]) as folders:
        assert len(folders._opened()[0].names()) == 4  # nothing is left of what was refused


def test_other_weights_of_the_same_name_are_refused_and_share_nothing(
    opened: Callable[..., Session], tmp_path: Path
) -> None:
    with opened() as session:
        mine = session.say(WORDS * 2, max_new_tokens=5, chat_template=False)
        session.fork("forked")
    (tmp_path / "other").mkdir()
    other = tiny_folder(tmp_path / "other" / "tiny", seed=8)
    for name in ("trip", "forked"):
        with pytest.raises(
            UserError, match=f"'{name}' was made with other weights of a model that is named 'tiny' too"
        ):
            opened(name, model=other)
    with opened("new", model=other) as session:
        reply = session.say(WORDS * 2, max_new_tokens=5, chat_template=False)
    assert (reply.shared_tokens, reply.tokens == mine.tokens) == (0, False)
    with opened("again") as session:
        assert session.say(WORDS * 2, max_new_tokens=5, chat_template=False).shared_tokens == 128


def test_other_settings_with_the_same_weights_are_refused_and_share_nothing(
    opened: Callable[..., Session], model: Path, tmp_path: Path
) -> None:
    """As where a model's maker mends its configuration: K of other rotations is K of another model."""
    with opened() as session:
        session.say(WORDS * 2, max_new_tokens=5, chat_template=False)
    other = tmp_path / "other" / "tiny"
    shutil.copytree(model, other)
    config = json.loads((other / "config.json").read_text())
    config["rope_parameters"]["rope_theta"] = 500000.0
    (other / "config.json").write_text(json.dumps(config))
    with pytest.raises(UserError, match="'trip' was made with other settings"):
        opened(model=other)
    with opened("new", model=other) as session:
        assert session.say(WORDS * 2, max_new_tokens=5, chat_template=False).shared_tokens == 0


def test_a_session_that_records_the_weights_alone_goes_on_and_shares_with_none_that_records_more(
    opened: Callable[..., Session], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As earlier versions made them."""
    with monkeypatch.context() as patched:
        patched.setattr("nearkv.session.parts.model_fingerprint", weights_fingerprint)
        with opened() as session:
            session.say(WORDS * 2, max_new_tokens=5, chat_template=False)
    with opened(create=False) as session:
        assert session.restored.recomputed == 0
        session.say("on", max_new_tokens=5, chat_template=False)
    with opened("new") as session:
        assert session.say(WORDS * 2, max_new_tokens=5, chat_template=False).shared_tokens == 0


def test_k_and_v_of_an_imported_file_are_no_prefix_of_other_sessions(
    opened: Callable[..., Session], model: Path, tmp_path: Path
) -> None:
    """A file may say of any K and V that they are of these tokens."""
    with opened() as session:
        wanted = session.say(WORDS * 2, max_new_tokens=5, chat_template=False).tokens
    with opened("first", folder=fresh(tmp_path, "theirs")) as session:
        session.say(WORDS * 2, max_new_tokens=5, chat_template=False)
    given, file = arguments(cards(tmp_path / "theirs")), tmp_path / "file"
    assert main(["sessions", "export", "first", str(file), *given]) == 0
    with SessionFile(file) as theirs:
        arrays = {f"kv.{layer}": theirs.rows(layer, LAYOUT) + np.float16(1) for layer in range(LAYOUT.layers)}
        arrays["journal"] = np.frombuffer(pack_records(theirs.records), np.uint8)
        facts = dict(theirs._facts) | {f"crc32c.{name}": f"{crc32c(array):08x}" for name, array in arrays.items()}
    save_tensors(arrays, tmp_path / "bad", facts)
    mine = arguments(cards(fresh(tmp_path, "mine")))
    with opened("any", folder=tmp_path / "mine") as session:
        session.say("a", max_new_tokens=2)
    assert main(["sessions", "import", str(tmp_path / "bad"), "--name", "bad", *mine]) == 0
    with opened("bad", folder=tmp_path / "mine", create=False) as session:
        session.say("go on", max_new_tokens=2)
        session.fork("forked")
    for name in ("bad", "forked"):
        with opened(name, folder=tmp_path / "mine", create=False) as session:
            assert session.restored.recomputed == 0
    with opened("new", folder=tmp_path / "mine") as session:
        reply = session.say(WORDS * 2, max_new_tokens=5, chat_template=False)
    assert (reply.shared_tokens, reply.tokens) == (0, wanted)


def fresh(folder: Path, name: str) -> Path:
    (folder / name).mkdir()
    return folder / name
