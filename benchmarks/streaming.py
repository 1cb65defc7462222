# SPDX-License-Identifier: Apache-2.0
"""Decode steps whose KV does not fit into card memory, beside the time that the drives alone need for the bytes.

Two emulated cards, each with a drive of a given read rate; SmolLM2's shape with fewer layers, random K and V. `host` is
what the model would do between two layers: a pause. Once with reads ahead of need, once with `prefetch=off`, where each
wave is read when the one before has been computed. The rate must be one that the emulated kernel keeps up with (a real
drive's is not), else the kernel is what is measured; the table shows how long it was busy. Writes a table and JSON:

    python benchmarks/streaming.py --context 8192 --batch 4 --drive read:40M,write:2G,latency:80
"""

from __future__ import annotations

import argparse
import json
import re
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
from arguments import number, whole
from nearkv.device_io import device_bytes, since
from nearkv.kvstore import KVStore
from nearkv.rates import above, flag
from nearkv.report import io_name
from nearkv.timeline import KERNEL, READ, Timeline, length, overlap_share, union
from rich.console import Console
from rich.table import Table
from shapes import SMOLLM2

GRAIN = 0.02  # of a throttled drive's rate: what pauses of the system's clock are too short by
UNITS = {"": 1.0, "K": 1e3, "M": 1e6, "G": 1e9}


@dataclass(frozen=True)
class Row:
    """Figures of one decode step, the mean of all; per card where cards differ: that of the busier card."""

    prefetch: str
    step_s: float
    drive_s: float
    kernel_s: float
    streamed_nbytes: int
    waves: int
    overlap: float
    path: str
    read_rate: float
    device_nbytes: int | None

    @property
    def share(self) -> float:
        return self.drive_s / self.step_s


def measure(args: argparse.Namespace, prefetch: str) -> Row:
    shape = replace(SMOLLM2, layers=args.layers)
    options = f"dram={args.dram}&resident={args.resident}&drive={args.drive}&prefetch={prefetch}&io={args.io}"
    rng = np.random.default_rng(0)
    timeline = Timeline()
    with KVStore.open(shape, [f"sw_emu:{i}?{options}" for i in range(args.cards)], timeline=timeline) as store:
        sequences = [store.add_sequence() for _ in range(args.batch)]
        for layer in range(shape.layers):
            for first in range(0, args.context, 1024):
                k, v = (
                    _rows(rng, args.batch, shape.kv_heads, min(1024, args.context - first), np.float16) for _ in "kv"
                )
                store.append(layer, sequences, k, v)
        q = _rows(rng, args.batch, shape.query_heads, 1, np.float32)
        k, v = (_rows(rng, args.batch, shape.kv_heads, 1, np.float16) for _ in "kv")

        def step() -> None:
            for layer in range(shape.layers):
                time.sleep(args.host_ms / 1e3)
                store.attend(layer, sequences, q, k, v, scale=0.125)

        step()
        moved = device_bytes()
        before, mark, began = store.stats(), len(timeline.intervals), time.perf_counter()
        for _ in range(args.steps):
            step()
        step_s = (time.perf_counter() - began) / args.steps
        after, intervals, device = store.stats(), timeline.intervals[mark:], since(moved)
    cards = range(args.cards)
    read = [b.streamed_nbytes - a.streamed_nbytes for a, b in zip(before.cards, after.cards, strict=True)]
    kernels = [length(union(i for i in intervals if i.card == card and i.what == KERNEL)) for card in cards]
    reads = [length(union(i for i in intervals if i.card == card and i.what == READ)) for card in cards]
    shares = [overlap_share(intervals, card) or 0.0 for card in cards]
    return Row(
        prefetch=prefetch,
        step_s=step_s,
        drive_s=max(read) / _read_rate(args.drive) / args.steps,
        kernel_s=max(kernels) / args.steps,
        streamed_nbytes=sum(read) // args.steps,
        waves=sum(b.waves - a.waves for a, b in zip(before.cards, after.cards, strict=True)) // args.steps,
        overlap=min(shares),
        path=io_name(after.cards[0].io),
        read_rate=max(nbytes / seconds for nbytes, seconds in zip(read, reads, strict=True)),
        device_nbytes=None if device is None else device.read // args.steps,
    )


def _rows(rng: np.random.Generator, batch: int, heads: int, tokens: int, dtype: type[np.generic]) -> np.ndarray:
    return rng.standard_normal((batch, heads, tokens, SMOLLM2.head_size), np.float32).astype(dtype)


def _read_rate(drive: str) -> float:
    match = re.search(r"read:([0-9.]+)([KMG]?)", drive)
    if match is None:
        raise SystemExit(f"--drive {drive}: give its read rate, as in read:150M,write:2G")
    return float(match[1]) * UNITS[match[2]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--context", type=whole(), default=8192)
    parser.add_argument("--batch", type=whole(), default=4)
    parser.add_argument("--layers", type=whole(), default=4)
    parser.add_argument("--cards", type=whole(), default=2)
    parser.add_argument("--steps", type=whole(), default=3)
    parser.add_argument("--dram", default="32M")
    parser.add_argument("--resident", default="0", help="share of card memory for extents that stay")
    parser.add_argument("--io", default="direct", choices=("direct", "buffered"))
    parser.add_argument("--drive", default="read:40M,write:2G,latency:80")
    parser.add_argument("--host-ms", type=number(0), default=5.0, help="what the host does between two layers")
    parser.add_argument("--out", type=Path, default=Path("build/benchmarks/streaming.json"))
    args = parser.parse_args()
    rows = [measure(args, prefetch) for prefetch in ("on", "off")]
    table = Table("reads ahead", "step", "drive alone", "share", "kernel busy", "streamed", "from devices", "hidden")
    for row in rows:
        times = (f"{row.step_s:.3f} s", f"{row.drive_s:.3f} s", f"{row.share:.2f}", f"{row.kernel_s:.3f} s")
        device = "not counted" if row.device_nbytes is None else f"{row.device_nbytes:,}"
        table.add_row(row.prefetch, *times, f"{row.streamed_nbytes:,}", device, f"{row.overlap:.2f}")
    what = f"{args.context} tokens, batch {args.batch}, {args.layers} layers, {args.cards} cards, drive {args.drive}"
    console = Console(width=110)
    console.print(table, f"{what}, {args.host_ms} ms of host per layer, {rows[0].path}")
    limit = _read_rate(args.drive)
    for row in rows:
        told = flag(row.read_rate, limit * (1 + GRAIN), f"{args.drive}")
        console.print(f"reads ahead {row.prefetch}: {row.read_rate / 1e9:.3g} GB/s while reading{told}")
    args.out.parent.mkdir(parents=True, exist_ok=True)
    document = {
        "name": "streaming",
        "options": {k: str(v) for k, v in vars(args).items() if k != "out"},
        "rows": [
            asdict(row) | {"share": row.share, "above_limit": above(row.read_rate, limit * (1 + GRAIN))} for row in rows
        ],
    }
    args.out.write_text(json.dumps(document, indent=2) + "\n")


if __name__ == "__main__":
    main()
