# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: T201 (a benchmark prints)
"""The model on a GPU, its KV cache on emulated cards: same tokens as on the CPU, and how idle the GPU is meanwhile.

Decodes a batch on the CPU, then on the GPU with one and with two micro-batches. Idle share: one minus the time in which
at least one GPU kernel or copy ran, over the time of the decode steps, from torch's profiler. The emulated cards are
slower than real ones, so the share is an upper bound. Without a GPU nothing is measured, and the script says so. This
script has not been run on a GPU. `python benchmarks/gpu_host.py [--context N] [--batch N] [--new-tokens N]`
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from arguments import whole
from nearkv import NearStorageCache
from nearkv.adapters.transformers.micro_batches import MicroBatches
from nearkv.models.cache_keyword import cache_keyword
from nearkv.models.loading import load_model
from torch.profiler import ProfilerActivity, profile

CARDS = ["sw_emu:0?dram=1G", "sw_emu:1?dram=1G"]


def covered_us(spans: Iterable[tuple[float, float]]) -> float:
    """Length of the union of spans (begin, end)."""
    total, reached = 0.0, float("-inf")
    for begin, end in sorted(spans):
        total += max(0.0, end - max(begin, reached))
        reached = max(reached, end)
    return total


def decode(model: Any, ids: torch.Tensor, new_tokens: int, parts: int) -> tuple[list[list[int]], float, float]:
    """(new tokens, seconds of the decode steps, microseconds in which the GPU worked)."""
    gpu = ids.device.type == "cuda"
    activities = [ProfilerActivity.CUDA] if gpu else [ProfilerActivity.CPU]
    with (
        NearStorageCache(model.config, CARDS) as cache,
        MicroBatches(model, cache, parts),
        torch.inference_mode(),
    ):
        held = {cache_keyword(model): cache}
        token = model(input_ids=ids, logits_to_keep=1, **held).logits[:, -1].argmax(-1, keepdim=True)
        tokens = [token]
        began = time.perf_counter()
        with profile(activities=activities) as profiler:
            for _ in range(new_tokens - 1):
                token = model(input_ids=token, **held).logits[:, -1].argmax(-1, keepdim=True)
                tokens.append(token)
            if gpu:
                torch.cuda.synchronize()
            seconds = time.perf_counter() - began
    spans = [
        (event.time_range.start, event.time_range.end)
        for event in profiler.events() or ()
        if str(event.device_type).endswith("CUDA")
    ]
    return torch.cat(tokens, 1).tolist(), seconds, covered_us(spans)


def main() -> int:
    parser = argparse.ArgumentParser(description="Time decode steps with the model on a GPU.")
    parser.add_argument("--context", type=whole(), default=1024)
    parser.add_argument("--batch", type=whole(), default=8)
    parser.add_argument("--new-tokens", type=whole(), default=16)
    parser.add_argument("--out", type=Path, default=Path("build/benchmarks/gpu_host.json"))
    options = parser.parse_args()
    if not torch.cuda.is_available():
        print("no GPU found: nothing was measured. The CUDA path needs one, and a torch that is built with CUDA.")
        return 0
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(100, 40_000, (options.batch, options.context), generator=generator)
    model: Any = load_model("smollm2").model
    expected, _, _ = decode(model, ids, options.new_tokens, 1)
    model = model.to("cuda")
    results = []
    for parts in (1, 2):
        decode(model, ids.to("cuda"), 4, parts)
        tokens, seconds, busy_us = decode(model, ids.to("cuda"), options.new_tokens, parts)
        different = sum(a != b for x, y in zip(tokens, expected, strict=True) for a, b in zip(x, y, strict=True))
        idle = 1 - busy_us * 1e-6 / seconds
        results.append({"micro_batches": parts, "seconds": seconds, "gpu_idle_share": idle, "different": different})
        print(
            f"{torch.cuda.get_device_name()}, {parts} micro-batches: {different} tokens differ from the CPU, "
            f"GPU idle {idle:.1%}, {options.batch * (options.new_tokens - 1) / seconds:.1f} tokens/s"
        )
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(results, indent=2) + "\n")
    return int(any(result["different"] for result in results))


if __name__ == "__main__":
    sys.exit(main())
