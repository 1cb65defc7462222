# SPDX-License-Identifier: Apache-2.0
"""How fast the RTL kernel simulates: in-process library against cocotb with cocotbext-axi memory, on the same list.

Cycles per second of CPU time, of the process that simulates; both forms are Verilator's, timed from START to the
interrupt and checked to leave the same memory. Prints a table, writes JSON to build/benchmarks/.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / name) for name in ("host", "driver", "emulation", ".", "benchmarks")]

from arguments import whole  # noqa: E402
from nearkv_emulation.model import ModelKernel  # noqa: E402
from nearkv_emulation.rtl import RtlCard, RtlKernel  # noqa: E402

from tests.rtl.bench.timed_list import timed_list  # noqa: E402
from tests.rtl.simulate import simulate  # noqa: E402
from tests.support.jobs import comparable  # noqa: E402

GOAL = 5


def in_process(tokens: int, repeats: int) -> tuple[int, float]:
    """(cycles, CPU seconds) of the library; the best of some runs."""
    image = timed_list(tokens)
    want = comparable(image, image.run(ModelKernel()))
    runs = []
    with RtlCard() as card:
        kernel = RtlKernel(card)
        for _ in range(repeats):
            memory = image.memory.copy()
            masters = image.masters(memory)
            card.map(masters)
            card.start(image.kv, image.ctl, image.out)
            cycles, seconds = card.cycles, time.process_time()
            card.run(50_000_000)
            runs.append((card.cycles - cycles, time.process_time() - seconds))
            kernel.card.finish()
            if not np.array_equal(comparable(image, memory), want):
                raise SystemExit("the library left other bytes than the model")
    return min(runs, key=lambda run: run[1] / run[0])


def under_cocotb(tokens: int) -> tuple[int, float]:
    """(cycles, CPU seconds) of the simulator process, told by its bench."""
    with tempfile.TemporaryDirectory() as folder:
        told = Path(folder) / "told.json"
        given = {"NEARKV_TOLD": str(told), "NEARKV_TOKENS": str(tokens)}
        simulate("nearkv_attend", "bench_speed", "verilator", Path(folder), None, None, (), **given)
        cycles, seconds = json.loads(told.read_text())
    return cycles, seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=whole(), default=4096, help="tokens of the job (8 rows, d = 128)")
    tokens = parser.parse_args().tokens
    rates = {}
    for name, (cycles, seconds) in {
        "in-process library": in_process(tokens, 3),
        "cocotb, AxiRamRead and AxiRamWrite": under_cocotb(tokens),
    }.items():
        rates[name] = {"cycles": cycles, "cpu_s": seconds, "cycles_per_cpu_s": cycles / seconds}
        sys.stdout.write(f"{name:36} {cycles:8} cycles {seconds:8.3f} CPU s {cycles / seconds:12,.0f} per CPU s\n")
    fast, slow = (rate["cycles_per_cpu_s"] for rate in rates.values())
    sys.stdout.write(f"ratio {fast / slow:.1f} (goal: at least {GOAL})\n")
    target = ROOT / "build" / "benchmarks" / "rtl_simulation.json"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps({"tokens": tokens, "rates": rates, "ratio": fast / slow}, indent=2) + "\n")
    if fast / slow < GOAL:
        raise SystemExit(f"the library simulates {fast / slow:.1f} times as fast; at least {GOAL} is the goal")


if __name__ == "__main__":
    main()
