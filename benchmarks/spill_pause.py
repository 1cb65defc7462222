# SPDX-License-Identifier: Apache-2.0
"""How long a decode step stands still for spills: behind the steps, and when the step waits for each of them.

Decodes random rows in the shape of SmolLM2-135M (30 layers, 3 KV heads) on one emulated card, whose drive may be a
modelled one. Prints a table and writes JSON:

    python benchmarks/spill_pause.py --drive smartssd --out build/benchmarks/spill_pause.json
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

import numpy as np
from arguments import whole
from nearkv.kvstore import KVStore
from nearkv.writer import Task, Work, Writer
from nearkv_driver.work_threads import WorkThreads
from rich.console import Console
from rich.table import Table
from shapes import SMOLLM2


@dataclass(frozen=True)
class Row:
    """Seconds per decode step of the whole batch; `spill_steps` are those that began a spill."""

    spills: str
    spill_units: int
    steps: int
    median_s: float
    spill_step_s: float
    waits: int
    wait_s: float

    @property
    def pause_s(self) -> float:
        return self.spill_step_s - self.median_s


class WaitingWriter:
    """Ends each piece of work before it gives back the task: what a step would cost without a writer thread."""

    def __init__(self, name: str) -> None:
        self._thread = WorkThreads(name)

    def give(self, work: Work) -> Task:
        task = self._thread.give(work)
        task.wait()
        return task

    def close(self) -> None:
        self._thread.close()


def measure(folder: Path, name: str, writer: type[Writer], spill_units: int, batch: int, drive: str) -> Row:
    rng = np.random.default_rng(3)
    options = f"&drive={drive}" if drive else ""
    steps = 4 * spill_units * SMOLLM2.unit_tokens + 8
    q = rng.normal(size=(batch, SMOLLM2.query_heads, 1, SMOLLM2.head_size)).astype(np.float32)
    row = (batch, SMOLLM2.kv_heads, 1, SMOLLM2.head_size)
    k, v = (rng.normal(size=row).astype(np.float16) for _ in "kv")
    times, begins = [], []
    url = f"sw_emu:0?ssd={folder}/{name}{spill_units}&spill={spill_units}{options}"
    with KVStore.open(SMOLLM2, [url], writer=writer) as store:
        sequences = [store.add_sequence(f"s{i}") for i in range(batch)]
        for _ in range(steps):
            before = store.stats()
            began = time.perf_counter()
            for layer in range(SMOLLM2.layers):
                store.attend(layer, sequences, q, k, v, scale=0.125)
            times.append(time.perf_counter() - began)
            after = store.stats()
            begins.append(after.spills + after.spills_in_flight > before.spills + before.spills_in_flight)
        stats = store.stats()
    spilling = [t for t, begin in zip(times, begins, strict=True) if begin]
    return Row(name, spill_units, steps, median(times), median(spilling), stats.spill_waits, stats.spill_wait_s)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=Path("build/benchmarks"), help="where the volumes are made")
    parser.add_argument("--batch", type=whole(), default=4)
    parser.add_argument("--spill", type=whole(), nargs="+", default=[1, 4])
    parser.add_argument("--drive", default="", help="as in a card URL's drive=")
    parser.add_argument("--out", type=Path, default=Path("build/benchmarks/spill_pause.json"))
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    rows = []
    with tempfile.TemporaryDirectory(prefix="spill-pause-", dir=args.folder) as private:
        for units in args.spill:
            for name, writer in (("waited for", WaitingWriter), ("behind the steps", WorkThreads)):
                rows.append(measure(Path(private), name, writer, units, args.batch, args.drive))
    table = Table("spills", "units", "steps", "median step ms", "step that spills ms", "pause ms", "waits", "waited ms")
    for row in rows:
        times = (row.median_s, row.spill_step_s, row.pause_s)
        waited = f"{row.wait_s * 1e3:.1f}"
        table.add_row(
            row.spills, str(row.spill_units), str(row.steps), *(f"{t * 1e3:.1f}" for t in times), str(row.waits), waited
        )
    where = f"drive={args.drive}" if args.drive else "the machine's own drive"
    Console(width=110).print(table, f"batch {args.batch}, one card, {where}")
    args.out.parent.mkdir(parents=True, exist_ok=True)
    found = {"name": "spill_pause", "batch": args.batch, "drive": args.drive}
    args.out.write_text(
        json.dumps({**found, "rows": [asdict(r) | {"pause_s": r.pause_s} for r in rows]}, indent=2) + "\n"
    )


if __name__ == "__main__":
    main()
