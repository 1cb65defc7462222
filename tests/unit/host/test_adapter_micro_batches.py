# SPDX-License-Identifier: Apache-2.0
"""Decode steps in parts of the batch: the same tokens, cards and model busy at the same time, clean failures."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from nearkv import NearStorageCache
from nearkv.adapters.transformers.micro_batches import MicroBatches
from nearkv.adapters.transformers.turns import Turns
from nearkv.errors import UserError

from tests.support.fake_store import FakeStore
from tests.support.tiny_models import CONFIGS, RoundedCache, assert_same, generate, prompt, tiny_model

pytestmark = pytest.mark.usefixtures("one_thread")

WAIT_S = 60


@pytest.mark.parametrize("name", CONFIGS)
def test_tokens_equal_stock_in_two_parts(name: str) -> None:
    model, inputs = tiny_model(name), prompt([4, 11, 1])
    expected = generate(model, RoundedCache(config=model.config), inputs)
    with NearStorageCache(model.config, store=FakeStore()) as cache, MicroBatches(model, cache, 2) as parts:
        assert_same(generate(model, cache, inputs), expected)
        assert parts.steps == 11
        assert (cache.get_seq_length(), cache.batch_size) == (22, 3)
    assert "forward" not in vars(model)


@pytest.mark.parametrize("count", [1, 2, 3, 8])
def test_any_number_of_parts(count: int) -> None:
    model, inputs, store = tiny_model("llama group 3 d 64"), prompt([5, 8, 3, 6]), FakeStore()
    expected = generate(model, RoundedCache(config=model.config), inputs, new_tokens=4)
    with NearStorageCache(model.config, store=store) as cache, MicroBatches(model, cache, count):
        assert_same(generate(model, cache, inputs, new_tokens=4), expected)
    assert store.calls.count("attend") == 2 * 3 * min(count, 4)


def test_beams_turns_and_crops_go_on_between_split_steps() -> None:
    model, inputs = tiny_model("llama group 3 d 64"), prompt([6, 9])
    theirs = RoundedCache(config=model.config)
    expected = generate(model, theirs, inputs, num_beams=2)
    with NearStorageCache(model.config, store=FakeStore()) as cache, MicroBatches(model, cache, 2):
        ours = generate(model, cache, inputs, num_beams=2)
        assert torch.equal(ours.sequences, expected.sequences)
        steps = []
        for kept in (theirs, cache):
            kept.crop(-2)
            assert kept.get_seq_length() == 9 + 11 - 2
            mask = torch.cat([inputs["attention_mask"].repeat_interleave(2, 0), torch.ones((4, 10), dtype=int)], 1)
            with torch.no_grad():
                ids = torch.tensor([[5], [6], [7], [8]])
                steps.append(model(input_ids=ids, attention_mask=mask, cache=kept).logits)
    assert torch.equal(*(x.argmax(-1) for x in steps))


def test_one_row_a_stock_cache_and_prefill_are_left_whole() -> None:
    model, store = tiny_model("llama group 3 d 64"), FakeStore()
    with NearStorageCache(model.config, store=store) as cache, MicroBatches(model, cache, 2) as parts:
        generate(model, cache, prompt([5]))
        generate(model, RoundedCache(config=model.config), prompt([5, 6]))
        cache.reset()
        with torch.no_grad():
            model(**prompt([6, 6]), cache=cache)
            model(input_ids=torch.tensor([[3], [4]]), cache=cache, output_hidden_states=True)
        assert parts.steps == 0


class MeetingStore(FakeStore):
    """Attends only when the model computes for another part at the same time, as both say."""

    def __init__(self) -> None:
        super().__init__()
        self.computing = threading.Event()
        self.met = 0
        self.inside = 0

    def attend(self, *args: Any, **kwargs: Any) -> Any:
        self.inside += 1
        assert self.inside == 1
        if self.met == 0:
            assert self.computing.wait(WAIT_S)
        self.met += 1
        out = super().attend(*args, **kwargs)
        self.inside -= 1
        return out


def test_the_model_computes_for_one_part_while_the_cards_attend_for_the_other() -> None:
    model, store, inputs = tiny_model("llama group 3 d 64"), MeetingStore(), prompt([6, 6])
    seen = []

    def computes(*_: Any) -> None:
        seen.append(threading.get_ident())
        if len(set(seen)) == 2:
            store.computing.set()

    with NearStorageCache(model.config, store=store) as cache, MicroBatches(model, cache, 2), torch.no_grad():
        model(**inputs, cache=cache)
        hook = model.model.layers[0].self_attn.q_proj.register_forward_hook(computes)
        model(input_ids=torch.tensor([[3], [4]]), cache=cache)
        hook.remove()
    assert store.met == 4


@pytest.mark.parametrize("layer", [0, 1])
def test_a_part_that_fails_undoes_the_whole_step(layer: int) -> None:
    model, store, inputs = tiny_model("llama group 3 d 64"), FakeStore(), prompt([4, 7, 5])
    step = torch.tensor([[5], [6], [7]])
    mask = torch.cat([inputs["attention_mask"], torch.ones((3, 1), dtype=torch.long)], 1)
    with NearStorageCache(model.config, store=store) as cache, MicroBatches(model, cache, 2), torch.no_grad():
        model(**inputs, cache=cache)
        store.fail_at_layer = layer
        with pytest.raises(RuntimeError, match="planned failure"):
            model(input_ids=step, attention_mask=mask, cache=cache)
        assert cache.get_seq_length() == 7
        lengths = {store.length(s, i) for s in store.rows for i in (0, 1)}
        assert lengths == {4, 7, 5}
        again = model(input_ids=step, attention_mask=mask, cache=cache).logits
    with NearStorageCache(model.config, store=FakeStore()) as other, torch.no_grad():
        model(**inputs, cache=other)
        whole = model(input_ids=step, attention_mask=mask, cache=other).logits
    torch.testing.assert_close(again, whole, rtol=0, atol=1e-4 * float(whole.std()))


class InterruptedStore(FakeStore):
    """The first attention of the second step presses Ctrl-C, as often as it is told, and goes on when it was seen."""

    def __init__(self, presses: int) -> None:
        super().__init__()
        self.presses, self.inside = 0, 0
        self.wanted = presses

    def attend(self, *args: Any, **kwargs: Any) -> Any:
        self.inside += 1
        ident = threading.main_thread().ident
        assert ident is not None
        while self.presses < self.wanted:
            self.presses += 1
            signal.pthread_kill(ident, signal.SIGINT)
            threading.Event().wait(0.4)  # the main thread sees each by itself, also on a busy machine
        out = super().attend(*args, **kwargs)
        self.inside -= 1
        return out


@pytest.fixture
def ctrl_c() -> Iterator[None]:
    """Raises KeyboardInterrupt; a shell that runs the tests in the background lets its children ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("ctrl_c")
@pytest.mark.parametrize("presses", [1, 2, 3])
def test_after_ctrl_c_no_part_goes_on(presses: int) -> None:
    model, store, inputs = tiny_model("llama group 3 d 64"), InterruptedStore(0), prompt([6, 6])
    with NearStorageCache(model.config, store=store) as cache, MicroBatches(model, cache, 2), torch.no_grad():
        model(**inputs, cache=cache)
        store.wanted = presses
        with pytest.raises(KeyboardInterrupt):
            model(input_ids=torch.tensor([[3], [4]]), cache=cache)
        assert store.presses == presses
        assert store.inside == 0
        assert {store.length(s, i) for s in store.rows for i in (0, 1)} == {6}
        again = model(input_ids=torch.tensor([[3], [4]]), cache=cache).logits
    with NearStorageCache(model.config, store=FakeStore()) as other, torch.no_grad():
        model(**inputs, cache=other)
        whole = model(input_ids=torch.tensor([[3], [4]]), cache=other).logits
    torch.testing.assert_close(again, whole, rtol=0, atol=1e-4 * float(whole.std()))


def test_no_parts_are_refused() -> None:
    model = tiny_model("llama group 3 d 64")
    with (
        NearStorageCache(model.config, store=FakeStore()) as cache,
        pytest.raises(UserError, match="micro_batches = 0"),
    ):
        MicroBatches(model, cache, 0)


def test_turns_exclude_each_other() -> None:
    turns = Turns()
    with turns.compute():
        assert not turns._computing.acquire(blocking=False)
        with turns.cards():
            assert turns._computing.acquire(blocking=False)
            assert not turns._cards.acquire(blocking=False)
            turns._computing.release()
