# SPDX-License-Identifier: Apache-2.0
"""The planner's one calibration: the four free constants of the published systems, fitted to all targets at once.

A seeded random search over the sum of squared logarithms of (1 + error) of every figure that they touch, and from the
best found steps of one constant at a time, smaller and smaller. It prints what belongs in `hardware/xeon-h3.toml` and
the GPUs' files; it changes no file.
"""

from __future__ import annotations

import argparse
import math
import random
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / name) for name in ("host", "driver", "emulation", ".", "benchmarks")]

from arguments import whole  # noqa: E402
from nearkv.planner.bench_of_hilos import Bench  # noqa: E402
from nearkv.planner.validation import targets  # noqa: E402

# Name, unit, what is believable: see docs/validation.md for why.
RANGES = (
    ("attention", 1e9, (8.0, 25.0)),
    ("file_rate", 1e9, (7.0, 27.6)),
    ("page_copy", 1e-6, (20.0, 200.0)),
    ("efficiency", 1.0, (0.4, 0.75)),
)
STEP = 0.1


def bench(values: Sequence[float]) -> Bench:
    base = Bench()
    attention, file_rate, page_copy, efficiency = (v * unit for v, (_, unit, _) in zip(values, RANGES, strict=True))
    host = replace(base.host, attention=attention, file_rate=file_rate, page_copy=page_copy)
    return Bench(host=host, gpu=replace(base.gpu, efficiency=efficiency))


def objective(values: Sequence[float]) -> float:
    figures = [figure for target in targets(bench(values)) for figure in target.figures]
    return sum(math.log(max(0.05, 1 + figure.error)) ** 2 for figure in figures)


def refined(best: list[float], least: float) -> tuple[list[float], float]:
    """The lowest point that steps of one constant reach; they shrink from a tenth to a 300th."""
    step = STEP
    while step > STEP / 30:
        moved = False
        for number, (_, _, (low, high)) in enumerate(RANGES):
            for factor in (1 + step, 1 / (1 + step)):
                tried = list(best)
                tried[number] = min(high, max(low, best[number] * factor))
                found = objective(tried)
                if found < least:
                    best, least, moved = tried, found, True
                    break
        if not moved:
            step /= 2
    return best, least


def told(best: Sequence[float]) -> str:
    return ", ".join(f"{name} {v:.3g}" for v, (name, _, _) in zip(best, RANGES, strict=True))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tries", type=whole(0), default=150)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    draw = random.Random(arguments.seed)
    best = [math.sqrt(low * high) for _, _, (low, high) in RANGES]
    least = objective(best)
    for number in range(arguments.tries):
        if number < arguments.tries // 4:
            tried = [draw.uniform(low, high) for _, _, (low, high) in RANGES]
        else:
            tried = [v * math.exp(draw.gauss(0, STEP)) for v in best]
        tried = [min(high, max(low, v)) for v, (_, _, (low, high)) in zip(tried, RANGES, strict=True)]
        found = objective(tried)
        if found < least:
            least, best = found, tried
            sys.stdout.write(f"try {number}: {least:.4f} with {told(best)}\n")
            sys.stdout.flush()
    best, least = refined(best, least)
    sys.stdout.write(f"refined: {least:.4f} with {told(best)}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
