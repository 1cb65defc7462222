# SPDX-License-Identifier: Apache-2.0
"""The error table of docs/arithmetic.md: `python benchmarks/arithmetic_error.py`.

Prints Markdown. One query row per draw; errors are RMS against float64, relative to the RMS of the sum of w|v|, the
kernel's before its output is rounded. Median and worst over the draws.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / name) for name in ("host", "driver", "emulation", ".", "benchmarks")]

from arguments import whole  # noqa: E402
from nearkv_emulation.csim import CsimKernel  # noqa: E402
from nearkv_emulation.kernel import Kernel  # noqa: E402

from tests.support.families import FAMILIES, attended, inputs, relative_error  # noqa: E402

Operand = NDArray[np.float32]
SIZES = ((1000, 64), (4096, 128))
LONG = ((32 * 1024, 64), (128 * 1024, 128))


def float_attention(
    weight_dtype: type[np.floating],
) -> Callable[[Operand, Operand, Operand, float], NDArray[np.float64]]:
    """Attention in FP32 with weights rounded to a type before they meet V, as GPU kernels do."""

    def attend(q: Operand, k: Operand, v: Operand, scale: float) -> NDArray[np.float64]:
        score = (q @ k.T) * np.float32(scale)
        weight = np.exp(score - score.max(axis=1, keepdims=True))
        out = weight.astype(weight_dtype).astype(np.float32) @ v / weight.sum(axis=1, dtype=np.float32)[:, None]
        rounded: NDArray[np.float64] = out.astype(weight_dtype).astype(np.float64)
        return rounded

    return attend


def row(kernel: Kernel, family: str, tokens: int, head_size: int, seeds: int) -> str:
    errors = []
    scale = head_size**-0.5
    for seed in range(seeds):
        q, k, v = inputs(family, tokens, head_size, seed)
        wide = q, k.astype(np.float32), v.astype(np.float32)
        outs = attended(kernel, q, k, v, scale), *(float_attention(t)(*wide, scale) for t in (np.float32, np.float16))
        errors.append([relative_error(out, q, k, v, scale) for out in outs])
    figures = " | ".join(f"{np.median(e):.1e}, {max(e):.1e}" for e in np.array(errors).T)
    return f"| {family} | {tokens} | {head_size} | {figures} |"


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Error of the kernel's arithmetic against float64.")
    parser.add_argument("--seeds", type=whole(), default=20, help="draws per line")
    parser.add_argument("--long", action="store_true", help="contexts of 32K and 128K tokens instead of 1K and 4K")
    args = parser.parse_args(argv)
    kernel = CsimKernel()
    header = ["| family | tokens | d | this | FP32 | FP16 |", "| --- | --- | --- | --- | --- | --- |"]
    sys.stdout.write("\n".join(header) + "\n")
    for family in FAMILIES:
        for tokens, head_size in LONG if args.long else SIZES:
            sys.stdout.write(row(kernel, family, tokens, head_size, args.seeds) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
