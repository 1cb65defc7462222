# SPDX-License-Identifier: Apache-2.0
"""The planner's step time for SmolLM2 on an emulated card here, from descriptions measured here, against real steps.

Everything is CPU time of this process with one thread, so that what else the machine does counts little: in a decode
step host, emulated kernel and torch take turns. Prints a table, writes JSON to build/benchmarks/; ends with 1 when a
prediction is off by more than 20 %.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import quantiles
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / name) for name in ("host", "driver", "emulation", ".")]

import torch  # noqa: E402
from nearkv import NearStorageCache  # noqa: E402
from nearkv.models.cache_keyword import cache_keyword  # noqa: E402
from nearkv.models.loading import load_model  # noqa: E402
from nearkv.planner.calibration import measure  # noqa: E402
from nearkv.planner.descriptions import write  # noqa: E402
from nearkv.planner.hardware import Card, Drive, Gpu, Host  # noqa: E402
from nearkv.planner.hardware_files import load  # noqa: E402
from nearkv.planner.models import find_model  # noqa: E402
from nearkv.planner.plan import make_plan  # noqa: E402
from nearkv.planner.system import NEARKV, System, Work  # noqa: E402

GOAL = 0.20
CONTEXTS, BATCHES = (256, 512, 1024, 2048), (1, 2, 3, 4)
STEPS = 20


@dataclass(frozen=True)
class Compared:
    context: int
    batch: int
    planned_s: float
    measured_s: float

    @property
    def error(self) -> float:
        return self.planned_s / self.measured_s - 1


def here() -> System:
    """This machine with one emulated card, measured in CPU time."""
    with tempfile.TemporaryDirectory() as folder:
        write(measure(Path(folder), "cpu", time.process_time), Path(folder))
        card = load(f"{folder}/card.toml", Card)
        drive = load(f"{folder}/drive.toml", Drive)
        return System(load(f"{folder}/gpu.toml", Gpu), load(f"{folder}/host.toml", Host), card, 1, drive, 1)


def step_s(model: Any, contexts: Sequence[int], batch: int) -> Iterator[float]:
    """CPU seconds of a decode step at each context: the lower quartile, as a spill falls into some and what else the
    machine does only adds, through caches that are shared. One cache grows."""
    with torch.inference_mode(), NearStorageCache(model.config, ["sw_emu:0"]) as cache:
        there, held = 0, {cache_keyword(model): cache}
        for context in contexts:
            begin = context - STEPS // 2  # of the steps the middle one has `context` tokens before it
            ids = torch.arange(there * batch, begin * batch).reshape(batch, begin - there) * 7919 % 40000 + 100
            model(input_ids=ids, use_cache=True, logits_to_keep=1, **held)
            times = []
            for _ in range(STEPS):
                began = time.process_time()
                model(input_ids=ids[:, :1], use_cache=True, **held)
                times.append(time.process_time() - began)
            there = begin + STEPS
            yield quantiles(times, n=4)[0]


def compare(contexts: Sequence[int], batches: Sequence[int]) -> tuple[System, list[Compared]]:
    model = load_model("smollm2").model
    system, shape = here(), find_model("smollm2-135m")
    found = []
    for batch in batches:
        for context, measured in zip(contexts, step_s(model, contexts, batch), strict=True):
            planned = make_plan(system, Work(shape, context, batch), NEARKV).step.seconds
            found.append(Compared(context, batch, planned, measured))
    return system, found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="the two shortest contexts, one and two sequences")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    few = 2 if arguments.quick else None
    system, found = compare(CONTEXTS[:few], BATCHES[:few])
    sys.stdout.write("context  batch  planned  measured  error\n")
    for one in found:
        times = f"{one.planned_s * 1e3:6.1f} ms {one.measured_s * 1e3:6.1f} ms"
        sys.stdout.write(f"{one.context:7} {one.batch:6} {times}  {one.error:+.0%}\n")
    sys.stdout.write(f"largest error {max((one.error for one in found), key=abs):+.0%}\n")
    told = {"system": asdict(system), "cases": [{**asdict(one), "error": one.error} for one in found]}
    out = ROOT / "build/benchmarks/plan_accuracy.json"
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(told, indent=2) + "\n")
    return int(any(abs(one.error) > GOAL for one in found))


if __name__ == "__main__":
    raise SystemExit(main())
