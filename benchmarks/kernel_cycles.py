# SPDX-License-Identifier: Apache-2.0
"""Cycles of the RTL kernel for lists as a decode step sends them, and the planner's formula fitted to them.

Runs the Verilated kernel behind the DDR4-2400 model, or behind the ideal memory that simulated cards have where nothing
else is asked for. Prints the coefficients that belong in `nearkv/planner/kernel_figures.toml`, under the memory's name,
and the residual of every list; writes both to build/benchmarks/.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

import numpy as np

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / name) for name in ("host", "driver", "emulation", ".")]

from nearkv.planner.kernel import DDR4, FEATURES, MEMORIES, Coefficients, JobShape, cycles, features  # noqa: E402
from nearkv_driver import regmap as rm  # noqa: E402
from nearkv_emulation.memory_model import Ddr4, Memory, MemoryTiming  # noqa: E402
from nearkv_emulation.rtl import RtlCard, RtlKernel  # noqa: E402
from numpy.typing import NDArray  # noqa: E402

from tests.support.jobs import build  # noqa: E402
from tests.support.speed_jobs import job  # noqa: E402

LATENCY = 40
CLASSES = (20_000, 5_000, 0)  # cycles from which on a list is in a class of docs/planner.md


@dataclass(frozen=True)
class Sample:
    """`count` equal jobs in one list and the cycles that it took."""

    count: int
    shape: JobShape
    cycles: int


def measure(count: int, shape: JobShape, memory: str) -> Sample:
    """A card of its own: where a refresh falls depends on what ran before. Jobs have checked extents, the rest as it
    lies in the tail, the new row in the message, and a copy of it to the tail."""
    d, rows, tokens, new = shape.head_size, shape.rows, shape.tokens, shape.new
    image = build([job(d, rows, tokens, rm.BLOCK_TOKENS, new, seed=seed, rest_checked=False) for seed in range(count)])
    with RtlCard() as card:
        card.memory(Memory(Ddr4() if memory == DDR4 else None))
        for master in range(3):
            card.timing(master, MemoryTiming(LATENCY))
        statuses = image.statuses(image.run(RtlKernel(card)))
    if {status["code"] for status in statuses} != {rm.Status.OK}:
        raise SystemExit(f"the kernel refused {shape}: {statuses}")
    return Sample(count, shape, sum(status["cycles"] for status in statuses))


def earlier(path: Path) -> tuple[str, list[Sample]]:
    """Memory and samples of a run that wrote that file."""
    told = json.loads(path.read_text())
    samples = [Sample(one["count"], JobShape(**one["shape"]), one["cycles"]) for one in told["samples"]]
    return str(told["memory"]), samples


def lists(quick: bool) -> list[tuple[int, JobShape]]:
    """What is measured: head size, rows, tokens and jobs of a list, around what decode steps send."""
    found = []
    for head_size in (64, 128, 256):
        for rows in (1, 3, 8):
            for count, tokens in ((1, 40), (3, 16), (3, 90), (12, 60)):
                found.append((count, JobShape(head_size, rows, tokens)))
            for count, tokens in ((1, 128), (1, 1024), (4, 512), (16, 256), (8, 1024), (1, 4096)):
                found.append((count, JobShape(head_size, rows, tokens)))
        for rows in (16, 40, 64):
            found += [(1, JobShape(head_size, rows, 1024)), (3, JobShape(head_size, rows, 512))]
    found += [(2, JobShape(80, 5, 1024)), (4, JobShape(128, 5, 2000)), (48, JobShape(64, 3, 128))]
    return found[::5] if quick else found


def classes(samples: Sequence[Sample], errors: Sequence[float]) -> str:
    """A line for each class of lists by their cycles: median and largest residual, and whose that is."""
    lines, below = [f"{len(samples)} lists; residuals by cycles:"], math.inf
    for least in CLASSES:
        found = [(abs(e), s) for s, e in zip(samples, errors, strict=True) if least <= s.cycles < below]
        if found:
            most, whose = max(found, key=lambda one: one[0])
            shape = whose.shape
            lines.append(
                f"from {least}: {len(found)}, median {median(error for error, _ in found):.1%}, largest {most:.1%} "
                f"({whose.count} jobs of {shape.tokens} tokens, d {shape.head_size}, {shape.rows} rows)"
            )
        below = least
    return "\n".join(lines) + "\n"


def fit(samples: Sequence[Sample]) -> Coefficients:
    """Least squares of relative errors; coefficients that would be negative are left out."""
    rows = [features(s.shape, s.count) for s in samples]
    a = np.array([[row[name] for name in FEATURES] for row in rows], float)
    b = np.array([s.cycles for s in samples], float)
    return Coefficients(*_non_negative(a / b[:, None], np.ones(len(b))))


def _non_negative(a: NDArray[np.float64], b: NDArray[np.float64]) -> list[float]:
    kept = list(range(a.shape[1]))
    while True:
        x, *_ = np.linalg.lstsq(a[:, kept], b, rcond=None)
        if (x >= 0).all():
            break
        kept.pop(int(np.argmin(x)))
    full = np.zeros(a.shape[1])
    full[kept] = x
    return [float(value) for value in full]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a fifth of the lists")
    parser.add_argument("--from", dest="measured", type=Path, help="JSON of an earlier run: fit without measuring")
    parser.add_argument("--memory", choices=MEMORIES, help=f"default: {DDR4}, or that of the earlier run")
    arguments = parser.parse_args()
    memory = arguments.memory or DDR4
    if arguments.measured:
        try:
            memory, samples = earlier(arguments.measured)
        except (OSError, ValueError, KeyError, TypeError) as refused:
            parser.error(f"--from {arguments.measured}: not what an earlier run wrote: {refused}")
        if arguments.memory not in (None, memory):
            parser.error(f"--memory {arguments.memory}: {arguments.measured} is of {memory}")
    else:
        samples = [measure(count, shape, memory) for count, shape in lists(arguments.quick)]
    found = fit(samples)
    errors = [cycles(s.shape, s.count, found) / s.cycles - 1 for s in samples]
    sys.stdout.write(f"[{memory}]\n")
    for name, value in asdict(found).items():
        sys.stdout.write(f"{name} = {value:.5g}\n")
    sys.stdout.write("jobs  d    rows  tokens  cycles  residual\n")
    for s, error in zip(samples, errors, strict=True):
        shape = s.shape
        line = f"{s.count:4} {shape.head_size:4} {shape.rows:4} {shape.tokens:7} {s.cycles:8} {error:+8.1%}\n"
        sys.stdout.write(line)
    sys.stdout.write(classes(samples, errors))
    told = {
        "memory": memory,
        "coefficients": asdict(found),
        "samples": [asdict(s) for s in samples],
        "residuals": errors,
    }
    out = ROOT / f"build/benchmarks/kernel_cycles-{memory}.json"
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(told, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
