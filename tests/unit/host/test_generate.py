# SPDX-License-Identifier: Apache-2.0
"""All is checked before cards open, transformers is asked for greedy tokens only, and everything closes at the end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import nearkv.generate as subject
import numpy as np
import pytest
from nearkv.errors import UserError
from nearkv.generate import generate
from nearkv_driver.errors import DriverError

from tests.support.figures import store_stats

END, LIMIT = 1, 40


class Tokenizer:
    """A token is a character; the end token has no text."""

    chat_template = None
    padding_side = "right"
    pad_token = "</s>"
    pad_token_id = END
    eos_token_id = END

    def __call__(self, texts: Sequence[str], **_: Any) -> dict[str, Any]:
        width = max(map(len, texts))
        return {
            "input_ids": np.array([[END] * (width - len(text)) + [ord(c) for c in text] for text in texts]),
            "attention_mask": np.array([[0] * (width - len(text)) + [1] * len(text) for text in texts]),
        }

    def decode(self, ids: Sequence[int], *, skip_special_tokens: bool, clean_up_tokenization_spaces: bool) -> str:
        assert skip_special_tokens
        assert not clean_up_tokenization_spaces
        return "".join(chr(i) for i in ids if i != END)


class GenerationConfig:
    def __init__(self, eos_token_id: Any = None, pad_token_id: int | None = None) -> None:
        self.eos_token_id, self.pad_token_id = eos_token_id, pad_token_id


class Model:
    """Continues prompt i with the letters of `words[i]`."""

    def __init__(self, words: Sequence[str]) -> None:
        self.words = words
        self.config = SimpleNamespace(get_text_config=lambda decoder: SimpleNamespace(max_position_embeddings=LIMIT))
        self.generation_config = GenerationConfig(eos_token_id=[END, 2])
        self.generation_config.temperature = 0.7  # type: ignore[attr-defined]
        self.asked: dict[str, Any] = {}

    def modules(self) -> Iterator[Any]:
        return iter(())

    def forward(self, input_ids: Any, past_key_values: Any = None) -> None: ...

    def generate(self, *, input_ids: Any, streamer: Any, max_new_tokens: int, **options: Any) -> None:
        self.asked = {"max_new_tokens": max_new_tokens, **options}
        streamer.put(input_ids)
        lines = [[ord(c) for c in word] + [END] * max_new_tokens for word in self.words[: len(input_ids)]]
        for step in range(max_new_tokens):
            streamer.put(np.array([line[step] for line in lines]))
            if all(END in line[: step + 1] for line in lines):
                break
        streamer.end()


@dataclass
class World:
    """What the fakes saw: `events` in order, the model that ran."""

    events: list[str] = field(default_factory=list)
    parts: list[int] = field(default_factory=list)
    model: Model = field(default_factory=lambda: Model(["hello", "yo"]))


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    world = World()

    def load_model(name: str, *, cache_dir: object, device: str) -> Any:
        world.events.append(f"load {name}" if device == "cpu" else f"load {name} on {device}")
        return SimpleNamespace(model=world.model, tokenizer=Tokenizer(), name=name)

    @contextmanager
    def open_cache(loaded: Any, urls: Sequence[str], timeline: Any) -> Iterator[Any]:
        world.events.append(f"open {' '.join(urls)}")
        try:
            yield SimpleNamespace(stats=store_stats, layout=None)
        finally:
            world.events.append("close")

    @contextmanager
    def open_parts(loaded: Any, cache: Any, count: int) -> Iterator[None]:
        world.parts.append(count)
        yield

    def find_device(name: str) -> str:
        if name == "cuda":
            raise ValueError("device 'cuda': torch finds no GPU")
        return "cpu" if name == "auto" else name

    @contextmanager
    def silence() -> Iterator[None]:
        yield

    @contextmanager
    def torch_threads(count: int | None) -> Iterator[None]:
        world.events.append(f"threads {count}")
        try:
            yield
        finally:
            world.events.append("threads back")

    monkeypatch.setattr(subject, "find_model", lambda name: None)
    monkeypatch.setattr(subject, "check_folders", lambda urls: None)
    monkeypatch.setattr(subject, "load_model", load_model)
    monkeypatch.setattr(subject, "open_cache", open_cache)
    monkeypatch.setattr(subject, "open_parts", open_parts)
    monkeypatch.setattr(subject, "find_device", find_device)
    monkeypatch.setattr(subject, "quiet_transformers", silence)
    monkeypatch.setattr(subject, "torch_threads", torch_threads)
    return world


def test_texts_tokens_and_figures_come_back(world: World) -> None:
    result = generate(["ab", "c"], max_new_tokens=8)
    assert result.texts == ("hello", "yo")
    assert result.tokens == ((*b"hello", END), (*b"yo", END))
    assert result.prefill_tokens == 3
    assert result.decode_tokens == 5 + 2
    assert result.prefill_s >= 0
    assert result.decode_s >= 0
    assert result.stats == store_stats()


def test_at_most_the_tokens_asked_for(world: World) -> None:
    assert generate(["ab", "c"], max_new_tokens=3).texts == ("hel", "yo")


def test_text_comes_as_it_grows(world: World) -> None:
    pieces: list[tuple[int, str]] = []
    ends: list[int] = []
    generate(["ab", "c"], max_new_tokens=8, on_text=lambda i, text: pieces.append((i, text)), on_end=ends.append)
    assert pieces[:5] == [(0, "h"), (1, "y"), (0, "e"), (1, "o"), (0, "l")]
    assert ends == [1, 0]


def test_only_greedy_settings_reach_the_model(world: World) -> None:
    generate(["ab", "c"], max_new_tokens=8)
    assert world.model.asked["do_sample"] is False
    assert world.model.asked["max_new_tokens"] == 8
    assert world.model.generation_config.eos_token_id == [END, 2]
    assert not hasattr(world.model.generation_config, "temperature")


def test_the_cache_goes_under_the_name_that_the_model_takes(world: World) -> None:
    class Renamed(Model):
        def forward(self, input_ids: Any, cache: Any = None) -> None: ...  # type: ignore[override]

    generate(["ab", "c"], max_new_tokens=8)
    assert "past_key_values" in world.model.asked
    world.model = Renamed(["hello"])
    generate(["ab"], max_new_tokens=8)
    assert "cache" in world.model.asked


def test_chunks_drafts_and_parts_are_passed_on(world: World) -> None:
    generate(["ab"], max_new_tokens=4)
    assert not {"prefill_chunk_size", "prompt_lookup_num_tokens"} & set(world.model.asked)
    generate(["ab"], max_new_tokens=4, micro_batches=2, prefill_chunk=7, prompt_lookup=3)
    assert (world.model.asked["prefill_chunk_size"], world.model.asked["prompt_lookup_num_tokens"]) == (7, 3)
    assert world.parts == [1, 2]


def test_cards_close_after_generation_and_threads_go_back(world: World) -> None:
    generate(["ab"], model="some", cards=["sw_emu:3"], threads=2, max_new_tokens=8, on_stage=world.events.append)
    assert world.events == [
        "loading some",
        "threads 2",
        "load some",
        "opening 1 cards",
        "open sw_emu:3",
        "close",
        "threads back",
    ]


@pytest.mark.parametrize("error", [DriverError("gone"), KeyboardInterrupt(), BrokenPipeError()])
def test_cards_close_whatever_happens_and_the_error_is_kept(world: World, error: BaseException) -> None:
    def on_text(index: int, piece: str) -> None:
        raise error

    with pytest.raises(type(error)):
        generate(["ab", "c"], on_text=on_text, max_new_tokens=8)
    assert world.events[-2:] == ["close", "threads back"]


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"prompts": []}, "no prompts"),
        ({"prompts": [" "]}, "prompt 1 of 1 is empty"),
        ({"cards": []}, "no cards"),
        ({"cards": ["nosuch:0"]}, "nosuch"),
        ({"max_new_tokens": 0}, "max_new_tokens is 0"),
        ({"threads": 0}, "threads is 0"),
        ({"micro_batches": 0}, "micro_batches is 0"),
        ({"prefill_chunk": 0}, "prefill_chunk is 0"),
        ({"prefill_chunk": 10**20}, "prefill_chunk is 100000000000000000000; it must be at most 2097152"),
        ({"prompt_lookup": 2**63}, "prompt_lookup is 9223372036854775808; it must be at most 2097152"),
        ({"prompt_lookup": -1}, "prompt_lookup is -1"),
        ({"prompts": ["p", "q"], "prompt_lookup": 3}, "prompt_lookup = 3 drafts for one prompt; there are 2"),
        ({"device": "cuda"}, "torch finds no GPU"),
    ],
)
def test_bad_input_is_refused_before_anything_is_loaded(world: World, changes: dict[str, Any], text: str) -> None:
    with pytest.raises(UserError, match=text):
        generate(**{"prompts": ["p"], **changes})
    assert world.events == []


def test_a_context_beyond_the_limit_is_refused_before_cards_open(world: World) -> None:
    with pytest.raises(UserError, match="43 in all, the model's limit is 40"):
        generate(["abc", "c"], max_new_tokens=LIMIT)
    assert not any(event.startswith("open") for event in world.events)


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ValueError("no GGUF\nfile"), "no GGUF file"),
        (OSError(28, "No space left on device", "/cache"), "/cache: No space left on device"),
        (ModuleNotFoundError("No module named 'torch'", name="torch"), "needs torch.*pip install"),
    ],
)
def test_what_libraries_raise_for_a_bad_model_is_one_user_error(
    world: World, monkeypatch: pytest.MonkeyPatch, error: Exception, text: str
) -> None:
    def load_model(name: str, **_: object) -> Any:
        raise error

    monkeypatch.setattr(subject, "load_model", load_model)
    with pytest.raises(UserError, match=text):
        generate(["p"])


def test_a_missing_module_of_our_own_is_no_user_error(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def load_model(name: str, **_: object) -> Any:
        raise ModuleNotFoundError("No module named 'nearkv.part'", name="nearkv.part")

    monkeypatch.setattr(subject, "load_model", load_model)
    with pytest.raises(ModuleNotFoundError, match="part"):
        generate(["p"])


def test_an_unknown_argument_is_an_error() -> None:
    with pytest.raises(TypeError, match="temperature"):
        generate(["p"], temperature=0.5)  # type: ignore[call-arg]
