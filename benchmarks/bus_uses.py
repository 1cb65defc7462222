# SPDX-License-Identifier: Apache-2.0
"""Where the cycles of many short jobs go on the bus of the DDR4-2400 model, from START to the interrupt.

Runs the Verilated kernel; all counts are of the simulation, so the machine's speed does not matter. Measures no time.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / name) for name in ("host", "driver", "emulation", ".", "benchmarks")]

from arguments import whole  # noqa: E402
from nearkv_driver import regmap as rm  # noqa: E402
from nearkv_emulation.memory_model import BusUses, Ddr4, Memory, MemoryTiming  # noqa: E402
from nearkv_emulation.rtl import RtlCard  # noqa: E402

from tests.support.jobs import build  # noqa: E402
from tests.support.speed_jobs import job  # noqa: E402

LATENCY = 40
LIMIT = 50_000_000
TEXT = {
    "kv": "words of K and V",
    "ctl": "words of lists and q",
    "out": "words of outputs and statuses",
    "fill": "words of pages from a drive",
    "refresh": "refresh",
    "turn": "the bus between reads and writes",
    "rows": "rows and bank groups that words wait for",
    "nothing": "no word waits",
}


def measure(jobs: int, head_size: int, rows: int, tokens: int) -> tuple[BusUses, int]:
    """What the bus did, and the sum of the statuses' cycles."""
    image = build([job(head_size, rows, tokens, seed=seed) for seed in range(jobs)])
    # A card of its own: where a refresh falls depends on what ran before.
    with RtlCard() as card:
        card.memory(Memory(Ddr4()))
        for master in range(3):
            card.timing(master, MemoryTiming(LATENCY))
        memory = image.memory.copy()
        card.map(image.masters(memory))
        card.start(image.kv, image.ctl, image.out)
        before, cycles = card.bus_uses(), card.cycles
        card.run(LIMIT)
        uses, passed = card.bus_uses() - before, card.cycles - cycles
        card.finish()
    if uses.cycles != passed:
        raise SystemExit(f"{uses.cycles} cycles of the bus are told, {passed} have passed")
    statuses = image.statuses(memory)
    if {status["code"] for status in statuses} != {rm.Status.OK}:
        raise SystemExit(f"the kernel refused the list: {statuses}")
    return uses, sum(status["cycles"] for status in statuses)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    for name, value in (("jobs", 64), ("head-size", 64), ("rows", 8), ("tokens", 256)):
        parser.add_argument(f"--{name}", type=whole(), default=value)
    given = parser.parse_args()
    uses, cycles = measure(given.jobs, given.head_size, given.rows, given.tokens)
    told = asdict(uses)
    for name, text in TEXT.items():
        sys.stdout.write(f"{told[name]:9,}  {text}\n")
    sys.stdout.write(f"{uses.cycles:9,}  in all; {uses.turns} turns of the bus; {cycles:,} by the statuses\n")
    out = ROOT / "build/benchmarks/bus_uses.json"
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps({"list": vars(given), "uses": told, "cycles": uses.cycles, "statuses": cycles}) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
