# SPDX-License-Identifier: Apache-2.0
"""`nearkv generate --session` as users call it: turns, odd values, and what a refusal leaves."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from nearkv.cli import main, session_turn
from nearkv.errors import UserError
from nearkv.kvstore import KVStore
from nearkv.open_sequences import OpenSequences
from nearkv.session.chat import Session
from nearkv.session.folder import SessionFolder
from nearkv.session.parts import SessionParts
from nearkv.session.records import Prompt, Sampling, Turn
from nearkv.volume_index import VolumeIndex
from nearkv.volume_lock import take_lock

from tests.support.stored_sessions import arguments
from tests.support.tiny_sessions import WORDS, cards, command


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


def test_device_bytes_are_counted_until_the_volumes_are_closed(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Closing stores the last partial units."""
    locked: list[int] = []

    def counted(_: object) -> None:
        for number in range(2):
            locked.append(take_lock(tmp_path / f"card{number}" / "lock"))

    monkeypatch.setattr(session_turn, "since", counted)
    given = ["--model", str(model), "--session", "trip", "--prompt", WORDS, *arguments(cards(tmp_path))]
    assert (main(["generate", *given]), len(locked)) == (0, 2)
    for fd in locked:
        os.close(fd)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--prompt", "  "], "prompt 1 of 1 is empty"),
        (["--prompt", "a", "--max-new-tokens", "5000"], "the model's limit is 4096"),
        (["--prompt", "a", "--prefill-chunk", "9999999"], "prefill_chunk is 9999999; it must be at most 2097152"),
        ([], "there is no session 'trip'; known: none"),
    ],
    ids=["empty", "long", "chunk", "nothing"],
)
def test_a_refused_first_turn_leaves_no_session(
    tmp_path: Path, model: Path, options: list[str], text: str, capfd: pytest.CaptureFixture[str]
) -> None:
    given = arguments(cards(tmp_path))
    assert main(["generate", "--model", str(model), "--session", "trip", *options, *given]) == 2
    out, err = capfd.readouterr()
    assert (out, text in err) == ("", True), err
    assert err.count("\n") == 1
    if (tmp_path / "card0").exists():
        assert main(["sessions", "list", *given]) == 0
        assert capfd.readouterr().out == "no sessions\n"


def test_a_refused_later_turn_changes_nothing(opened: Callable[..., Session], tmp_path: Path) -> None:
    with opened() as session:
        session.say(WORDS, max_new_tokens=3)
        tokens = session.tokens
    path = SessionFolder(tmp_path / "card0").path_of("trip")
    before = path.read_bytes()
    with pytest.raises(UserError, match="at most 2097152"), opened() as session:
        session.say("a", max_new_tokens=1 << 22)
    with pytest.raises(TypeError, match="sampling is of type dict"), opened() as session:
        session.say("a", sampling={"temperature": 1.0})
    assert path.read_bytes() == before
    with opened(create=False) as session:
        assert session.tokens == tokens


def test_tokens_that_the_model_does_not_know_are_refused(opened: Callable[..., Session], tmp_path: Path) -> None:
    """As an imported file may have them: the model's embedding would fail on them."""
    with opened() as session:
        session.say("a", max_new_tokens=2)
        session._parts.journal.append(Turn(Sampling(), 5))
        session._parts.journal.append(Prompt((3, 70_000)))
    with pytest.raises(UserError, match=r"session 'trip' has the token 70000; the model knows 0 to \d+"):
        opened(create=False)


def test_any_sampling_goes_on_as_it_would_have(opened: Callable[..., Session], tmp_path: Path) -> None:
    """Other settings from turn to turn, and a restart between all of them and none."""
    turns = [
        Sampling(5e-324, seed=(1 << 63) - 1),
        Sampling(1.0, top_k=1 << 21, top_p=1e-300),
        Sampling(),
        Sampling(100.0, top_k=1),
        Sampling(1.3, top_k=40, top_p=0.9, seed=4),
        None,
        Sampling(),
    ]

    def say(session: Session, number: int) -> tuple[int, ...]:
        template = number % 2 == 0
        return session.say(
            f"turn {number} \0 \u00e9", max_new_tokens=1 + number, sampling=turns[number], chat_template=template
        ).tokens

    with opened("straight", share=False) as session:
        straight = [say(session, number) for number in range(len(turns))]
    assert len({*straight, ()}) == len(turns) + 1
    got = []
    for number in range(len(turns)):
        with opened("restarted", share=False) as session:
            got.append(say(session, number))
    assert got == straight


def test_a_turn_that_goes_on_counts_its_new_tokens_alone(
    opened: Callable[..., Session], model: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Those from before the cut took none of its time."""
    left = iter(range(30))

    def told(index: int, text: str) -> None:
        if next(left, None) is None:
            raise KeyboardInterrupt

    with opened() as session, pytest.raises(KeyboardInterrupt):
        session.say(WORDS, max_new_tokens=60, on_text=told)
    before = len(SessionFolder(tmp_path / "card0").read("trip").state.tokens)
    given = arguments(cards(tmp_path))
    assert main(["generate", "--model", str(model), "--session", "trip", "--json", *given]) == 0
    document = json.loads(capfd.readouterr().out)
    new = document["session"]["tokens"] - before
    assert (len(document["tokens"][0]), document["decode"]["tokens"]) == (60, new - 1)
    assert 0 < new <= 30


def test_cards_in_another_order_are_told_as_such(
    opened: Callable[..., Session], model: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with opened() as session:
        session.say("a", max_new_tokens=2)
    given = arguments([f"sw_emu:{i}?kernel=model&ssd={tmp_path}/card{1 - i}" for i in range(2)])
    for prompt in ([], ["--prompt", "b"]):
        assert main(["generate", "--model", str(model), "--session", "trip", *prompt, *given]) == 2
        assert "the volume holds card = 1, this store has 0" in capfd.readouterr().err


def test_a_first_card_that_is_not_there_is_told_and_nothing_is_begun(
    opened: Callable[..., Session], tmp_path: Path
) -> None:
    """As where its file system is not mounted: the sessions would be begun anew, and the other card's K and V go."""
    with opened() as session:
        session.say("a", max_new_tokens=40)
        tokens = session.tokens
    (tmp_path / "card0").rename(tmp_path / "away")
    (tmp_path / "card0").mkdir()
    with pytest.raises(UserError, match=r"card0 holds no volume, while .*card1 is one of a store"):
        opened()
    assert list((tmp_path / "card0").iterdir()) == []
    (tmp_path / "card0").rmdir()
    (tmp_path / "away").rename(tmp_path / "card0")
    with opened() as session:
        assert (session.tokens, session.restored.recomputed) == (tokens, 0)


def test_another_card_that_is_not_there_is_told_and_no_k_and_v_go(
    opened: Callable[..., Session], tmp_path: Path
) -> None:
    """As above; once its drive is lost for good, the text names the way to go on."""
    with opened() as session:
        session.say("a", max_new_tokens=40)
        tokens = session.tokens
    (tmp_path / "card1").rename(tmp_path / "away")
    (tmp_path / "card1").mkdir()
    for name in ("trip", "new"):
        with pytest.raises(UserError, match=r"card1 holds no volume, while .*card0 has sessions .* Is it mounted\?"):
            opened(name)
    assert list((tmp_path / "card1").iterdir()) == []
    (tmp_path / "card1").rmdir()
    (tmp_path / "away").rename(tmp_path / "card1")
    with opened() as session:
        assert (session.tokens, session.restored.recomputed) == (tokens, 0)
        layout, urls = session._parts.layout, [card.device.url for card in session._parts.store._cards]
    shutil.rmtree(tmp_path / "card1")
    KVStore.open(layout, urls).close()
    with opened() as session:
        assert session.tokens == tokens
        assert session.restored.recomputed == len(tokens) - 1


@pytest.mark.parametrize("moment", ["making it", "entering it", "adopting it"])
def test_ctrl_c_while_the_first_turn_makes_its_sequence(
    opened: Callable[..., Session], monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    """The session stays open, as in a notebook, and goes on: the prompt is in the journal before anything is made."""
    where, name = {
        "making it": (VolumeIndex, "create"),
        "entering it": (OpenSequences, "enter"),
        "adopting it": (SessionParts, "_adopt"),
    }[moment]
    call, calls = getattr(where, name), []

    def interrupted(self: object, *values: object) -> None:
        calls.append(name)
        if name != "_adopt":
            call(self, *values)
        raise KeyboardInterrupt

    with opened("straight", share=False) as session:
        wanted = session.say(WORDS, max_new_tokens=5).tokens
    with opened("trip", share=False) as session:
        with monkeypatch.context() as patched:
            patched.setattr(where, name, interrupted)
            with pytest.raises(KeyboardInterrupt):
                session.say(WORDS, max_new_tokens=5)
        assert calls == [name]
        assert session.go_on().tokens == wanted


def test_a_closed_session_says_so_whatever_is_asked_of_it(opened: Callable[..., Session]) -> None:
    """Also where nothing was said: its first turn would ask the store, which is closed too, for what others have."""
    with opened() as session:
        pass
    calls: list[Callable[[], object]] = [
        lambda: session.say(WORDS * 2),
        session.go_on,
        lambda: session.fork("other"),
        lambda: session.crop(0),
    ]
    for call in calls:
        with pytest.raises(UserError, match="the session is closed; open it again"):
            call()
    assert session.tokens == ()
