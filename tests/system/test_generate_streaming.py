# SPDX-License-Identifier: Apache-2.0
"""SmolLM2 whose KV does not fit into card memory says the same tokens as with all of it resident."""

from __future__ import annotations

import pytest
from nearkv.generate import GenerationResult, generate
from nearkv.models.loading import find_model
from nearkv.report_document import document

# Enough text for any length: each line differs, so attention has something to look for.
LINES = [f"Line {i}: drive {i * 7919 % 1009} holds page {i * 104729 % 7907}." for i in range(600)]


def say(characters: int, options: str, tokens: int, drafts: int | None = None) -> GenerationResult:
    prompt = "\n".join(LINES)[:characters] + "\nRepeat the second line."
    cards = [f"sw_emu:{i}?{options}" for i in range(2)]
    return generate([prompt], cards=cards, max_new_tokens=tokens, threads=1, prefill_chunk=1024, prompt_lookup=drafts)


@pytest.mark.parametrize(
    ("characters", "dram", "least"),
    [(2400, "6M", 800), pytest.param(15000, "32M", 7500, marks=[pytest.mark.soak, pytest.mark.timeout(3600)])],
)
def test_streamed_tokens_are_those_of_a_resident_cache(characters: int, dram: str, least: int) -> None:
    try:
        find_model("smollm2")
    except ValueError as missing:
        pytest.skip(str(missing))
    resident = say(characters, "dram=512M", 12)
    streamed = say(characters, f"dram={dram}", 12)
    assert resident.prefill_tokens >= least
    assert sum(card.streamed_nbytes for card in resident.stats.cards) == 0
    assert all(card.streamed_nbytes > card.kv_nbytes for card in streamed.stats.cards)
    assert streamed.tokens == resident.tokens


def test_drafts_share_what_is_read_from_the_drives() -> None:
    try:
        find_model("smollm2")
    except ValueError as missing:
        pytest.skip(str(missing))
    plain, drafted = say(2400, "dram=6M", 12), say(2400, "dram=6M", 12, drafts=5)
    assert plain.tokens == drafted.tokens
    name = "streamed_bytes_per_decoded_token"
    media = document(plain)["media"]
    assert media[name] == media["streamed_bytes"] / plain.decode_tokens
    assert 0 < document(drafted)["media"][name] < 0.8 * media[name]
