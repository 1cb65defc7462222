# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: T201 (a benchmark prints)
"""What processing prompts in chunks saves in memory and costs in bytes read back; SmolLM2, two long prompts.

Each chunk size runs in a process of its own, whose peak resident memory is taken: weights and two emulated cards are
part of it. `python benchmarks/prefill_memory.py [--characters N]`
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import pydoc_data.topics
import resource
import sys
from pathlib import Path
from typing import Any

from arguments import whole
from nearkv.generate import generate

CHUNKS = (None, 512, 128)
CARDS = ["sw_emu:0?dram=512M", "sw_emu:1?dram=512M"]


def measure(chunk: int | None, characters: int) -> dict[str, Any]:
    """One run, in this process."""
    topics = pydoc_data.topics.topics
    text = "".join(topics[name] for name in sorted(topics))[:characters]
    result = generate(
        [text] * 2, cards=CARDS, max_new_tokens=2, chat_template=False, threads=1, prefill_chunk=chunk, device="cpu"
    )
    return {
        "prefill_chunk": chunk,
        "prompt_tokens": result.prefill_tokens,
        "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        "prefill_s": result.prefill_s,
        "read_back_bytes": result.stats.read_back_nbytes,
        "tokens": result.tokens,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description="Peak memory of prefill, whole and in chunks.")
    parser.add_argument("--characters", type=whole(), default=16_000, help="length of each prompt")
    parser.add_argument("--out", type=Path, default=Path("build/benchmarks/prefill_memory.json"))
    options = parser.parse_args()
    results = []
    print("chunk  prompt tokens   peak MiB  prefill s  read back MiB")
    for chunk in CHUNKS:
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            result = pool.apply(measure, (chunk, options.characters))
        results.append(result)
        print(
            f"{chunk or 'none':>5}  {result['prompt_tokens']:13,}  {result['peak_bytes'] / 2**20:9,.0f}"
            f"  {result['prefill_s']:9.1f}  {result['read_back_bytes'] / 2**20:13,.0f}",
            flush=True,
        )
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(results, indent=2) + "\n")
    return int(any(result["tokens"] != results[0]["tokens"] for result in results))


if __name__ == "__main__":
    sys.exit(main())
