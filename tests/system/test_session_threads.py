# SPDX-License-Identifier: Apache-2.0
"""One session in several threads, and in a process that was forked while it was open."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from nearkv.errors import UserError
from nearkv.session.chat import Session

from tests.support.tiny_sessions import WORDS, cards


def test_turns_of_two_threads_come_one_after_the_other(opened: Callable[..., Session]) -> None:
    replies: dict[str, tuple[int, ...]] = {}
    with opened() as session:

        def say(text: str) -> None:
            replies[text] = session.say(text, max_new_tokens=12).tokens

        threads = [threading.Thread(target=say, args=(text,)) for text in (WORDS, "and then?")]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            seen = session.tokens  # looking waits for no turn
            assert session.tokens[: len(seen)] == seen
            threads[0].join(timeout=0.01)
            threads[1].join(timeout=0.01)
        tokens = session.tokens
    assert [len(reply) for reply in replies.values()] == [12, 12]
    assert tokens[-12:] in replies.values()
    with opened(create=False) as session:
        assert session.tokens == tokens


def test_who_hears_a_token_may_fork_the_session(opened: Callable[..., Session]) -> None:
    """The second one has the turn under way too, and ends it alike."""
    heard: list[str] = []

    def fork(index: int, text: str) -> None:
        heard.append(text)
        if len(heard) == 3:
            session.fork("copy")

    with opened() as session:
        wanted = session.say(WORDS, max_new_tokens=30, on_text=fork).tokens
        tokens = session.tokens
    with opened("copy", create=False) as copy:
        assert copy.unfinished
        assert copy.go_on().tokens == wanted
        assert copy.tokens == tokens


def test_a_forked_process_leaves_its_parents_session_alone(opened: Callable[..., Session], tmp_path: Path) -> None:
    """Whatever it calls is refused by name, and its end writes no mark where the parent goes on."""
    with opened(name="other") as session:
        wanted = session.say(WORDS, max_new_tokens=30).tokens
    told, ends = tmp_path / "told", os.pipe()
    child = 0

    def fork(index: int, text: str) -> None:
        nonlocal child
        if child:
            return
        child = os.fork()
        if not child:
            os.read(ends[0], 1)  # the parent's turn has gone on
            lines = []
            calls = (lambda: session.say("a"), session.go_on, lambda: session.crop(1), lambda: session.fork("b"))
            for call in calls:
                try:
                    call()
                except Exception as error:
                    lines.append(f"{type(error).__name__}: {error}")
            session.close()
            told.write_text("\n".join(lines))
            os._exit(0)

    with opened(share=False) as session:
        assert session.say(WORDS, max_new_tokens=30, on_text=fork).tokens == wanted
        os.write(ends[1], b"!")
        assert os.waitpid(child, 0)[1] == 0
        lines = told.read_text().splitlines()
        assert len(lines) == 4
        assert all(line.startswith(f"UserError: this session was opened by process {os.getpid()}") for line in lines)
        again = session.say("and then?", max_new_tokens=5).tokens
        tokens = session.tokens
    with opened(create=False) as session:
        assert session.tokens == tokens
        assert session.tokens[-5:] == again
        assert session.restored.recomputed == 0
    with pytest.raises(UserError, match="is closed"):
        session.say("a")


ENDS = """
import os, sys
from nearkv.session.chat import Session
with Session.open("trip", model=sys.argv[1], cards=sys.argv[2:], threads=1) as session:
    session.say("a", max_new_tokens=3)
    if (child := os.fork()) == 0:
        sys.exit(0)
    assert os.waitpid(child, 0)[1] == 0
    session.say("b", max_new_tokens=3)
"""


def test_a_forked_process_ends_in_silence(model: Path, tmp_path: Path) -> None:
    """As the interpreter does, which runs what is left to run: nothing of that is the child's."""
    line = [sys.executable, "-c", ENDS, str(model), *cards(tmp_path)]
    path = os.pathsep.join(p for p in sys.path if p)
    done = subprocess.run(line, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=False)
    assert (done.returncode, "Traceback" in done.stderr, "Exception" in done.stderr) == (0, False, False), done.stderr
