# SPDX-License-Identifier: Apache-2.0
"""SmolLM2 whose KV does not fit into card memory says the same tokens as with all of it resident."""

from __future__ import annotations

import pytest
from nearkv.generate import GenerationResult, generate
from nearkv.models.loading import find_model

# Enough text for any length: each line differs, so attention has something to look for.
LINES = [f"Line {i}: drive {i * 7919 % 1009} holds page {i * 104729 % 7907}." for i in range(600)]


def say(characters: int, options: str, tokens: int) -> GenerationResult:
    prompt = "\n".join(LINES)[:characters] + "\nRepeat the second line."
    cards = [f"sw_emu:{i}?{options}" for i in range(2)]
    return generate([prompt], cards=cards, max_new_tokens=tokens, threads=1, prefill_chunk=1024)


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
