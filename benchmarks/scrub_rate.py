# SPDX-License-Identifier: Apache-2.0
"""How fast pages are verified, beside plain reads of the same pages, in turns in one run.

    python benchmarks/scrub_rate.py --folder FOLDER --out build/benchmarks/scrub_rate.json

A session of random rows in SmolLM2-135M's shape on one emulated card. `verify` is what `nearkv sessions verify` does;
`read` asks for the same pages in the same requests, as many in flight, and looks at none of them; `check` takes the
checksums of as many bytes in memory, on one thread, and reads nothing.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median

import numpy as np
from arguments import whole
from nearkv.kvstore import KVStore
from nearkv.requests import Requests
from nearkv.scrub import Scrubber
from nearkv_driver.filesystem import filesystem_of
from nearkv_driver.pagestore import PageFile, aligned_buffer, page_crcs
from rich.console import Console
from shapes import SMOLLM2

GOAL = 0.7


def fill(folder: Path, tokens: int) -> None:
    """A named sequence of random rows."""
    random = np.random.default_rng(1)
    with KVStore.open(SMOLLM2, [f"sw_emu:0?kernel=model&dram=64M&ssd={folder}"]) as store:
        sequence = store.add_sequence("rows")
        shape = (1, SMOLLM2.kv_heads, min(tokens, 2048), SMOLLM2.head_size)
        for _ in range(0, tokens, 2048):
            for layer in range(SMOLLM2.layers):
                k, v = (random.standard_normal(shape, np.float32).astype(np.float16) for _ in range(2))
                store.append(layer, [sequence], k, v)


def read(folder: Path, scrubber: Scrubber, requests: Requests) -> int:
    """The same pages in the same requests, unchecked; how many bytes."""
    record = scrubber.record("rows")
    assert record is not None
    runs, memory = list(scrubber._runs(record)), threading.local()
    with PageFile.open(folder / "data-000000.pages", create=False, writable=False) as file:

        def one(offset: int, nbytes: int) -> None:
            if not hasattr(memory, "view"):
                memory.view = aligned_buffer(max(run.nbytes for run in runs))
            file.read_into(memory.view[:nbytes], offset)

        requests.run([partial(one, r.place.slot * SMOLLM2.slot_nbytes + r.offset, r.nbytes) for r in runs])
        assert file.io == "direct"
    return sum(run.nbytes for run in runs)


def verify(scrubber: Scrubber) -> int:
    """Every page read and compared; how many bytes."""
    found = scrubber.scrub("rows")
    assert not found.bad
    return found.nbytes


def check(memory: memoryview) -> int:
    """Checksums of what is in memory already."""
    page_crcs(memory)
    return memory.nbytes


def main() -> None:
    """Measure, print and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=Path("build/benchmarks"), help="where the volume is made")
    parser.add_argument("--tokens", type=whole(), default=20480)
    parser.add_argument("--rounds", type=whole(), default=7)
    parser.add_argument("--out", type=Path, default=Path("build/benchmarks/scrub_rate.json"))
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    memory = aligned_buffer(64 << 20)
    memory[:] = bytes(range(256)) * (len(memory) // 256)
    rates: dict[str, list[float]] = {"verify": [], "read": [], "check": []}
    cpu: dict[str, list[float]] = {name: [] for name in rates}
    with tempfile.TemporaryDirectory(prefix="scrub-", dir=args.folder) as private:
        folder = Path(private) / "card0"
        fill(folder, args.tokens)
        kind, requests, nbytes = filesystem_of(folder), Requests("benchmark"), 0
        with Scrubber(folder) as scrubber:
            readers: dict[str, Callable[[], int]] = {
                "verify": lambda: verify(scrubber),
                "read": lambda: read(folder, scrubber, requests),
                "check": lambda: check(memory),
            }
            nbytes = readers["read"]()
            for turn in range(args.rounds):
                for name in sorted(readers, reverse=turn % 2 == 0):
                    began, began_cpu = time.perf_counter(), time.process_time()
                    done = readers[name]()
                    rates[name].append(done / (time.perf_counter() - began))
                    cpu[name].append((time.process_time() - began_cpu) / done * 1e9)
        requests.close()
    console = Console(width=110)
    console.print(f"{nbytes >> 20} MiB on {kind}, O_DIRECT, {args.rounds} rounds in turns")
    for name, found in rates.items():
        low, high = min(found) / 1e9, max(found) / 1e9
        spent = median(cpu[name])
        rate = f"{median(found) / 1e9:6.2f} GB/s ({low:.2f} to {high:.2f})"
        console.print(f"{name:7} {rate}, {spent:.2f} CPU s per GB", markup=False)
    ratio = median(v / r for v, r in zip(rates["verify"], rates["read"], strict=True))
    console.print(f"{ratio:.2f} of plain reads; the goal is {GOAL}: {'reached' if ratio >= GOAL else 'missed'}")
    args.out.parent.mkdir(parents=True, exist_ok=True)
    facts = {"name": "scrub_rate", "filesystem": kind, "nbytes": nbytes, "ratio": ratio, "goal": GOAL}
    args.out.write_text(json.dumps({**facts, "rates": rates, "cpu_s_per_gb": cpu}, indent=2) + "\n")


if __name__ == "__main__":
    main()
