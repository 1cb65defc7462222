# SPDX-License-Identifier: Apache-2.0
"""Greedy generation for a batch of prompts with the KV cache on cards: the entry point of programs and of the CLI.

It loads the model, opens the cards, generates and closes both; for more control use `NearStorageCache` with
transformers' own `generate`. No sampling: every token is the one with the highest logit, whatever the model's own
generation settings say. What can be refused is refused before a card is opened.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nearkv_driver.regmap import POSITIONS_MAX

from nearkv.config import DEFAULT_CARDS, DEFAULT_MODEL, DEFAULT_NEW_TOKENS
from nearkv.device_io import DeviceBytes, device_bytes, since
from nearkv.errors import UserError
from nearkv.inputs import Inputs, check_cards, check_context, check_count, check_prompts, tokenize
from nearkv.models.cache_keyword import cache_keyword
from nearkv.models.facts import end_tokens, position_limit
from nearkv.models.loading import LoadedModel, find_model, load_model
from nearkv.models.runtime import find_device, quiet_transformers, torch_threads
from nearkv.prefill import OnPrefill, PrefillWatch
from nearkv.refusals import refusing
from nearkv.streaming import OnEnd, OnText, TokenSink
from nearkv.volume_folders import check_folders

if TYPE_CHECKING:
    from nearkv.layout import ModelLayout
    from nearkv.stats import StoreStats
    from nearkv.timeline import Timeline

# Beyond it the system runs out of threads in the middle of the work.
_THREADS_MAX = 1024

OnStage = Callable[[str], None]


@dataclass(frozen=True)
class GenerationResult:
    """New text and token ids per prompt (end token included), times, and the store's figures at the end.

    `prefill_tokens` are the prompts' tokens; `decode_tokens` the new ones that decode steps gave, which is all but the
    first of each prompt. Times leave out loading the model and opening the cards. `layout`: shape of the KV cache.
    `device`: what the process moved to and from devices once the cards were open, where the system tells.
    """

    texts: tuple[str, ...]
    tokens: tuple[tuple[int, ...], ...]
    prefill_tokens: int
    prefill_s: float
    decode_tokens: int
    decode_s: float
    stats: StoreStats
    layout: ModelLayout | None = None
    device: DeviceBytes | None = None


def generate(
    prompts: Sequence[str],
    *,
    model: str | Path = DEFAULT_MODEL,
    cards: Sequence[str] = DEFAULT_CARDS,
    max_new_tokens: int = DEFAULT_NEW_TOKENS,
    chat_template: bool = True,
    threads: int | None = None,
    device: str = "auto",
    micro_batches: int | None = None,
    prefill_chunk: int | None = None,
    prompt_lookup: int | None = None,
    cache_dir: str | os.PathLike[str] | None = None,
    on_stage: OnStage | None = None,
    on_prefill: OnPrefill | None = None,
    on_text: OnText | None = None,
    on_end: OnEnd | None = None,
    timeline: Timeline | None = None,
) -> GenerationResult:
    """Generates up to `max_new_tokens` for each prompt, all prompts as one batch.

    model: a known name, a folder in transformers' format or a GGUF file. cards: URLs, each card once.
    threads: for the model's own arithmetic (None leaves torch's setting). device: "cpu", "cuda" or "auto".
    micro_batches: parts of the batch in flight in decode steps, one at the cards while another is computed (None: 2 on
    CUDA, else 1). prefill_chunk: tokens of a prompt that are processed at a time (None: all). prompt_lookup: tokens to
    draft from the prompt itself where its end repeats, checked in one step; for one prompt. cache_dir: where the
    converted form of a GGUF file goes (None: the user's cache folder).
    on_stage(text): what begins now. on_prefill(layers done, layers). on_text(prompt's index, new piece of its text).
    on_end(prompt's index): its text is complete. All are called in this thread, between steps.
    timeline: is told what host, link, drive and kernel do when.

    Raises UserError for what cannot be done as asked, DriverError for trouble with a card or its storage.
    """
    stage = on_stage or _ignore
    with refusing():
        checked = check_prompts(prompts)
        urls = check_cards(cards)
        check_count("max_new_tokens", max_new_tokens)
        if threads is not None:
            check_count("threads", threads, _THREADS_MAX)
        if micro_batches is not None:
            check_count("micro_batches", micro_batches)
        for name, count in (("prefill_chunk", prefill_chunk), ("prompt_lookup", prompt_lookup)):
            if count is not None:
                check_count(name, count, POSITIONS_MAX)  # torch takes it as 64 bits
        if prompt_lookup is not None and len(checked) > 1:
            raise UserError(f"prompt_lookup = {prompt_lookup} drafts for one prompt; there are {len(checked)}")
        find_model(model)
        check_folders(urls)
        place = find_device(device)
    with ExitStack() as stack:
        stage(f"loading {model}")
        with refusing():
            stack.enter_context(quiet_transformers())
            stack.enter_context(torch_threads(threads))
            loaded = load_model(model, cache_dir=cache_dir, device=place)
            inputs = tokenize(loaded.tokenizer, checked, chat_template=chat_template)
            check_context(inputs.lengths, max_new_tokens, position_limit(loaded.model.config))
        stage(f"opening {len(urls)} cards")
        with refusing():
            cache = stack.enter_context(open_cache(loaded, [url.text for url in urls], timeline))
        stack.enter_context(open_parts(loaded, cache, micro_batches or (2 if place == "cuda" else 1)))
        more = {"prefill_chunk_size": prefill_chunk, "prompt_lookup_num_tokens": prompt_lookup}
        options = {name: value for name, value in more.items() if value is not None}
        moved = device_bytes()
        sink = _decode(loaded, inputs.on(place), cache, max_new_tokens, options, on_prefill, on_text, on_end)
        stats: StoreStats = cache.stats()
        layout: ModelLayout = cache.layout
        device_moved = since(moved)
    return GenerationResult(
        texts=tuple(sink.texts),
        tokens=tuple(tuple(ids) for ids in sink.tokens),
        prefill_tokens=sum(inputs.lengths),
        prefill_s=sink.prefill_s,
        decode_tokens=sink.decode_tokens,
        decode_s=sink.decode_s,
        stats=stats,
        layout=layout,
        device=device_moved,
    )


def open_cache(
    loaded: LoadedModel, urls: Sequence[str], timeline: Timeline | None = None
) -> AbstractContextManager[Any]:
    """The cards, opened as the model's KV cache. The adapter is imported here: it needs torch, the rest does not."""
    from nearkv.adapters.transformers import NearStorageCache

    return NearStorageCache(loaded.model.config, urls, model_name=loaded.name, timeline=timeline)


def open_parts(loaded: LoadedModel, cache: Any, count: int) -> AbstractContextManager[Any]:
    """Decode steps of the model run in `count` parts while this is open."""
    from nearkv.adapters.transformers.micro_batches import MicroBatches

    return MicroBatches(loaded.model, cache, count)


def _decode(
    loaded: LoadedModel,
    inputs: Inputs,
    cache: Any,
    max_new_tokens: int,
    options: dict[str, int],
    on_prefill: OnPrefill | None,
    on_text: OnText | None,
    on_end: OnEnd | None,
) -> TokenSink:
    """Runs transformers' generate; returns what it gave."""
    network: Any = loaded.model
    tokenizer: Any = loaded.tokenizer
    ends = end_tokens(network, tokenizer)
    pad = tokenizer.pad_token_id or 0
    # A fresh configuration: the model's own may ask for sampling or penalties, and then the tokens would not be greedy.
    network.generation_config = type(network.generation_config)(eos_token_id=list(ends) or None, pad_token_id=pad)

    def text_of(ids: Sequence[int]) -> str:
        text: str = tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)
        return text

    with PrefillWatch(network, on_prefill or _ignore) as watch:
        sink = TokenSink(len(inputs.lengths), text_of, ends, on_text=on_text, on_end=on_end, on_first=watch.stop)
        network.generate(
            input_ids=inputs.ids,
            attention_mask=inputs.mask,
            max_new_tokens=max_new_tokens,
            do_sample=False,
            streamer=sink,
            **{cache_keyword(network): cache, **options},
        )
    return sink


def _ignore(*_: object) -> None:
    """Where nobody asked to be told."""
