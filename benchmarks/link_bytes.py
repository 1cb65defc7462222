# SPDX-License-Identifier: Apache-2.0
"""Bytes between host and cards for one decoded token, counted by the driver, beside formula and host offload.

Runs real attend calls of `KVStore` on two emulated cards with random K and V. Prints a table and writes JSON:

    python benchmarks/link_bytes.py --out build/benchmarks/link_bytes.json
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
from nearkv.kvstore import KVStore
from nearkv.layout import ModelLayout
from nearkv.stats import StoreStats
from rich.console import Console
from rich.table import Table
from shapes import SMOLLM2

SHAPES = {
    layout.model: layout
    for layout in (
        replace(SMOLLM2, layers=1),
        ModelLayout("Llama-3-8B", layers=1, query_heads=32, kv_heads=8, head_size=128),
        ModelLayout("Phi-2", layers=1, query_heads=32, kv_heads=32, head_size=80),
    )
}
CONTEXTS = (128, 1024, 4096)
CARDS = ("sw_emu:0?io=buffered", "sw_emu:1?io=buffered")  # the volumes' I/O is not what is measured


@dataclass(frozen=True)
class Row:
    """One layer, one sequence, one token; bytes."""

    model: str
    context: int
    formula_nbytes: int
    measured_nbytes: int
    overhead_nbytes: int
    host_offload_nbytes: int

    @property
    def ratio(self) -> float:
        return self.host_offload_nbytes / (self.measured_nbytes + self.overhead_nbytes)


def _link(stats: StoreStats) -> tuple[int, int]:
    payload = sum(c.link_down_payload + c.link_up_payload for c in stats.cards)
    return payload, sum(c.link_overhead for c in stats.cards)


def measure(name: str, layout: ModelLayout, context: int) -> Row:
    rng = np.random.default_rng(context)

    def rows(heads: int, tokens: int) -> np.ndarray:
        return rng.standard_normal((1, heads, tokens, layout.head_size), np.float32)

    with KVStore.open(layout, CARDS) as store:
        sequence = [store.add_sequence()]
        k, v = (rows(layout.kv_heads, context - 1).astype(np.float16) for _ in "kv")
        store.append(0, sequence, k, v)
        before = store.stats()
        k, v = (rows(layout.kv_heads, 1).astype(np.float16) for _ in "kv")
        store.attend(0, sequence, rows(layout.query_heads, 1), k, v, scale=layout.head_size**-0.5)
        after = store.stats()
    (payload0, overhead0), (payload1, overhead1) = _link(before), _link(after)
    return Row(
        name,
        context,
        after.formula_link_nbytes,
        payload1 - payload0,
        overhead1 - overhead0,
        after.host_offload_nbytes,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("build/benchmarks/link_bytes.json"))
    args = parser.parse_args()
    result = [measure(name, layout, context) for name, layout in SHAPES.items() for context in CONTEXTS]
    table = Table("model", "context", "formula", "measured", "overhead", "host offload", "ratio with overhead")
    for row in result:
        figures = (row.context, row.formula_nbytes, row.measured_nbytes, row.overhead_nbytes, row.host_offload_nbytes)
        table.add_row(row.model, *(f"{x:,}" for x in figures), f"{row.ratio:.1f}")
    Console(width=110).print(table, "bytes per layer, sequence and decoded token; two cards")
    args.out.parent.mkdir(parents=True, exist_ok=True)
    rows = [asdict(row) | {"ratio": row.ratio} for row in result]
    args.out.write_text(json.dumps({"name": "link_bytes", "rows": rows}, indent=2) + "\n")


if __name__ == "__main__":
    main()
