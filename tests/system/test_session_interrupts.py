# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C at any moment of a turn with a real model and store, the session staying open as in a notebook: it goes on
with the tokens that it would have given.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
import torch
from nearkv.kvstore import KVStore
from nearkv.session.chat import Session
from nearkv.session.records import Sampling

from tests.support.interrupts import Interrupts
from tests.support.tiny_sessions import WORDS

# 20 tokens, 12 new ones; then a second turn that is computed in chunks of less than a unit.
TURNS = [(WORDS[:40], 12, None), (WORDS[:60], 8, 25)]


# Where most of what can be broken off in the wrong place lies; a turn has far more moments in torch and transformers.
OURS = ("host/nearkv/", "nearkv_driver", "nearkv_emulation", "threading.py", "contextlib.py")


def _turn(session: Session, number: int) -> tuple[int, ...]:
    text, count, chunk = TURNS[number]
    if session.unfinished:
        return session.go_on().tokens
    return session.say(text, max_new_tokens=count, sampling=Sampling(1.1, seed=3), prefill_chunk=chunk).tokens


def interrupted(opened: Callable[..., Session], moments: int, seed: int) -> None:
    chooser = random.Random(seed)
    wanted, count = {}, {}
    for among in (OURS, ("",)):
        with opened(f"straight {len(among)}", share=False) as session:
            for number in range(len(TURNS)):
                with Interrupts(among=among) as counted:
                    wanted[number] = _turn(session, number)
                count[among, number] = counted.moments
            tokens = session.tokens
    for moment in range(moments):
        number, among = moment % len(TURNS), (OURS, ("",))[moment % 3 == 2]
        with opened(f"cut {moment}", share=False) as session:
            for before in range(number):
                _turn(session, before)
            begun = len(session.tokens)
            last = count[among, number]
            hits = [(chooser.randrange(1, last), 0)]
            hits += [(chooser.randrange(1, max(2, last // 3)), chooser.choice((0, 1, 2, 5, 20, 100))) for _ in range(2)]
            told = f"moment {moment}, {hits}"
            for at, again in hits:
                try:
                    with Interrupts(at, again, among):
                        _turn(session, number)
                    break
                except KeyboardInterrupt:
                    pass
                if not session.unfinished and len(session.tokens) > begun:
                    break  # it came behind the end of the turn: what is said next is another one
            if session.unfinished or len(session.tokens) == begun:
                assert _turn(session, number) == wanted[number], told
            for after in range(number + 1, len(TURNS)):
                assert _turn(session, after) == wanted[after], told
            assert session.tokens == tokens, told
        with opened(f"cut {moment}", create=False) as session:
            assert session.tokens == tokens, told
            assert session.restored.recomputed == 0


def test_ctrl_c_anywhere_changes_no_token(opened: Callable[..., Session]) -> None:
    interrupted(opened, 12, seed=1)


@pytest.mark.parametrize("crop", [False, True])
def test_layers_that_hold_different_numbers_of_tokens_are_evened_out(
    opened: Callable[..., Session], monkeypatch: pytest.MonkeyPatch, crop: bool
) -> None:
    """Trouble between two layers, as when the model runs out of memory; or in the middle of a crop."""
    with opened("straight", share=False) as session:
        session.say(WORDS, max_new_tokens=6)
        session.crop(30 if crop else len(session.tokens))
        wanted = session.say("and", max_new_tokens=9).tokens
    with opened("trip", share=False) as session:
        session.say(WORDS, max_new_tokens=6)
        parts = session._parts
        if crop:
            call = KVStore.crop

            def crops_and_fails(self: KVStore, sequence: int, length: int) -> None:
                call(self, sequence, length)
                raise MemoryError

            with monkeypatch.context() as patched:
                patched.setattr(KVStore, "crop", crops_and_fails)
                with pytest.raises(MemoryError):
                    session.crop(30)
            session.crop(30)
            assert session.say("and", max_new_tokens=9).tokens == wanted
            return
        count = 0

        def between(module: torch.nn.Module, *_: object) -> None:
            nonlocal count
            count += 1
            if count == 3:
                raise MemoryError

        hook = parts.model.model.layers[0].mlp.register_forward_pre_hook(between)
        with pytest.raises(MemoryError):
            session.say("and", max_new_tokens=9)
        hook.remove()
        assert session.go_on().tokens == wanted


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_ctrl_c_at_many_moments_changes_no_token(opened: Callable[..., Session]) -> None:
    interrupted(opened, 300, seed=2)
