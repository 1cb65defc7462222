# SPDX-License-Identifier: Apache-2.0
"""Cycles of the RTL kernel for lists as a decode step sends them, and the planner's formula fitted to them.

Runs the Verilated kernel behind the DDR4-2400 model, or behind the ideal memory that simulated cards have where nothing
else is asked for. Prints the coefficients that belong in `nearkv/planner/kernel_figures.toml`, under the memory's name,
and the residual of every list; writes both to build/benchmarks/.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

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
LONG = 10_000  # cycles from which on a list counts as long


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
    parser.add_argument("--memory", choices=MEMORIES, default=DDR4)
    arguments = parser.parse_args()
    if arguments.measured:
        told = json.loads(arguments.measured.read_text())["samples"]
        samples = [Sample(one["count"], JobShape(**one["shape"]), one["cycles"]) for one in told]
    else:
        samples = [measure(count, shape, arguments.memory) for count, shape in lists(arguments.quick)]
    found = fit(samples)
    errors = [cycles(s.shape, s.count, found) / s.cycles - 1 for s in samples]
    sys.stdout.write(f"[{arguments.memory}]\n")
    for name, value in asdict(found).items():
        sys.stdout.write(f"{name} = {value:.5g}\n")
    sys.stdout.write("jobs  d    rows  tokens  cycles  residual\n")
    for s, error in zip(samples, errors, strict=True):
        shape = s.shape
        line = f"{s.count:4} {shape.head_size:4} {shape.rows:4} {shape.tokens:7} {s.cycles:8} {error:+8.1%}\n"
        sys.stdout.write(line)
    long = [abs(error) for s, error in zip(samples, errors, strict=True) if s.cycles >= LONG]
    sys.stdout.write(f"largest residual {max(map(abs, errors)):.1%} of {len(samples)} lists\n")
    sys.stdout.write(f"lists of {LONG} cycles and more: median {np.median(long):.1%}, largest {max(long):.1%}\n")
    told = {
        "memory": arguments.memory,
        "coefficients": asdict(found),
        "samples": [asdict(s) for s in samples],
        "residuals": errors,
    }
    out = ROOT / f"build/benchmarks/kernel_cycles-{arguments.memory}.json"
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(told, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
