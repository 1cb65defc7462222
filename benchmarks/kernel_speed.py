# SPDX-License-Identifier: Apache-2.0
"""Speed of the HLS kernel compiled by g++ beside torch's attention on the same CPU, one thread, KV in memory.

    python benchmarks/kernel_speed.py [--out build/benchmarks] [--tokens 8192] [--repeats 15]

Both are timed in turn in one process, so that they share whatever else the machine does. Torch works in FP32 on K and V
that it already holds as FP32; the kernel reads FP16, checks pages and converts. Writes kernel_speed.json and .md.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from arguments import whole
from kernel_image import EXTENT_TOKENS, KernelImage
from nearkv_driver.regmap import BLOCK_TOKENS
from nearkv_emulation.build import Variant, build, hls_folder
from nearkv_emulation.csim import CsimKernel

STAGES = ("copy", "checksums", "decode", "array, K", "array, V", "scores and weights", "tiles and bins")
ROWS = (1, 3, 8)
HEAD_SIZES = (64, 128)


@dataclass(frozen=True)
class Figure:
    """Medians in milliseconds; `ratio` is torch's time over the kernel's (above 1: the kernel is faster)."""

    head_size: int
    rows: int
    tokens: int
    checksums: bool
    kernel_ms: float
    torch_ms: float
    ratio: float
    kv_gb_per_s: float
    stage_share: dict[str, float]


def median_ms(functions: list[Callable[[], object]], repeats: int) -> list[float]:
    """Median CPU time of each function, all of them called in turn: what others do on the machine does not count."""
    times: list[list[float]] = [[] for _ in functions]
    for _ in range(repeats + 2):
        for function, found in zip(functions, times, strict=True):
            start = time.thread_time()
            function()
            found.append((time.thread_time() - start) * 1e3)
    return [statistics.median(found[2:]) for found in times]


def torch_attention(image: KernelImage) -> Callable[[], object]:
    """The rows as query positions over one head: torch reads K and V once for all of them, its best case here."""
    q, k, v = (torch.from_numpy(x.astype(np.float32))[None, None] for x in (image.q, image.k, image.v))
    return lambda: torch.nn.functional.scaled_dot_product_attention(q, k, v)


def stage_shares(head_size: int, rows: int, image: KernelImage, kernel_ms: float) -> dict[str, float]:
    """Share of each stage in the kernel's time. A stage is timed alone on one block that lies in the CPU's caches, so
    the rest is mostly K and V on their way from memory."""
    folder = hls_folder()
    library = build("stage_times", folder, [folder / "tb" / "stage_times.cpp"], Variant.FAST.value)
    ns = (ctypes.c_double * len(STAGES))()
    ctypes.CDLL(str(library)).nearkv_stage_times(head_size, rows, 200, ns)
    blocks = len(image.k) // BLOCK_TOKENS
    found = {name: value * blocks / 1e6 / kernel_ms for name, value in zip(STAGES, ns, strict=True)}
    if not image.checksums:
        found["checksums"] = 0.0
    found["memory and the rest"] = max(0.0, 1 - sum(found.values()))
    return {name: round(share, 3) for name, share in found.items()}


def measure(kernel: CsimKernel, head_size: int, rows: int, tokens: int, repeats: int) -> list[Figure]:
    images = [KernelImage(head_size, rows, tokens, checksums) for checksums in (False, True)]
    reference = torch_attention(images[0])
    for image in images:
        error = np.abs(image.attention(kernel) - reference().numpy()[0, 0]).max()  # type: ignore[attr-defined]
        if error > 1e-5:
            raise SystemExit(f"kernel and torch differ by {error} at head size {head_size}, {rows} rows")
    *kernel_ms, torch_ms = median_ms([*(lambda i=i: i.run(kernel) for i in images), reference], repeats)
    figures = []
    for image, ms in zip(images, kernel_ms, strict=True):
        shares = stage_shares(head_size, rows, image, ms)
        rate = 2 * tokens * head_size * 2 / ms / 1e6
        figures.append(Figure(head_size, rows, tokens, image.checksums, ms, torch_ms, torch_ms / ms, rate, shares))
    return figures


def table(figures: list[Figure]) -> str:
    lines = [
        "| d | rows | tokens | checksums | kernel ms | torch ms | torch / kernel | KV GB/s | largest stages |",
        "| ---: | ---: | ---: | --- | ---: | ---: | ---: | ---: | --- |",
    ]
    for f in figures:
        top = sorted(f.stage_share.items(), key=lambda item: -item[1])[:3]
        stages = ", ".join(f"{name} {share:.0%}" for name, share in top)
        checks = "on" if f.checksums else "off"
        lines.append(
            f"| {f.head_size} | {f.rows} | {f.tokens} | {checks} | {f.kernel_ms:.2f} | {f.torch_ms:.2f} "
            f"| {f.ratio:.2f} | {f.kv_gb_per_s:.2f} | {stages} |"
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("build/benchmarks"), help="folder for the table and the JSON")
    parser.add_argument("--tokens", type=whole(multiple=EXTENT_TOKENS), default=8192)
    parser.add_argument("--repeats", type=whole(), default=15)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    kernel = CsimKernel()
    cases = [(d, rows) for d in HEAD_SIZES for rows in ROWS]
    figures = [f for d, rows in cases for f in measure(kernel, d, rows, arguments.tokens, arguments.repeats)]
    arguments.out.mkdir(parents=True, exist_ok=True)
    rows = [asdict(figure) for figure in figures]
    (arguments.out / "kernel_speed.json").write_text(
        json.dumps({"name": "kernel_speed", "rows": rows}, indent=1) + "\n"
    )
    (arguments.out / "kernel_speed.md").write_text(table(figures))
    sys.stdout.write(table(figures))


if __name__ == "__main__":
    main()
