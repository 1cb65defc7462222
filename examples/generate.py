# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: T201 (an example prints)
"""transformers' own generate() with its KV cache on two emulated cards. Run it: python examples/generate.py [PROMPT]"""

from __future__ import annotations

import sys

from nearkv import NearStorageCache
from nearkv.models.loading import load_model
from nearkv.report import human_bytes, link_nbytes

CARDS = ["sw_emu:0", "sw_emu:1"]  # temporary volumes; sw_emu:0?ssd=FOLDER keeps a volume in a folder


def main(prompt: str) -> None:
    loaded = load_model("smollm2")
    model, tokenizer = loaded.model, loaded.tokenizer
    inputs = tokenizer.apply_chat_template(
        [{"role": "user", "content": prompt}], add_generation_prompt=True, return_dict=True, return_tensors="pt"
    )
    with NearStorageCache(model.config, cards=CARDS) as cache:
        # From 5.24 on transformers calls the argument `cache` and warns of the old name, which every version takes.
        output = model.generate(**inputs, past_key_values=cache, max_new_tokens=32, do_sample=False)
        stats = cache.stats()
    prompt_tokens = inputs["input_ids"].shape[1]
    print(tokenizer.decode(output[0, prompt_tokens:], skip_special_tokens=True))
    for card in stats.cards:
        print(f"{card.url}: {human_bytes(card.kv_nbytes)} of K and V, {card.lists} kernel starts")
    print(f"over the links: {human_bytes(link_nbytes(stats))}")
    print(f"host offload would have moved: {human_bytes(stats.host_offload_nbytes)}")


if __name__ == "__main__":
    main(" ".join(sys.argv[1:]) or "What is the capital of France?")
