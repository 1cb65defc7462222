# SPDX-License-Identifier: Apache-2.0
"""Anonymous memory of a process that decodes over a long context, beside the same over a short one.

Each context runs in a process of its own, on emulated cards whose KV does not fit into their memory (their memory is
part of the process and counts). SmolLM2's shape, random K and V, no model: what is measured is the store. Writes a
table and JSON:

    python benchmarks/host_memory.py --context 8192 --batch 4 --dram 64M
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
from arguments import whole
from nearkv.kvstore import KVStore
from rich.console import Console
from rich.table import Table
from shapes import SMOLLM2

SHORT = 64
CHUNK = 512


def anonymous_nbytes() -> int:
    """Resident memory of this process that no file backs."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    raise SystemExit("/proc/self/status names no RssAnon")


def run(args: argparse.Namespace) -> dict[str, int]:
    rng = np.random.default_rng(0)

    def rows(heads: int, tokens: int) -> np.ndarray:
        return rng.standard_normal((args.batch, heads, tokens, SMOLLM2.head_size), np.float32)

    urls = [f"sw_emu:{i}?dram={args.dram}&io={args.io}" for i in range(args.cards)]
    with KVStore.open(SMOLLM2, urls) as store:
        sequences = [store.add_sequence() for _ in range(args.batch)]
        for first in range(0, args.context, CHUNK):
            tokens = min(CHUNK, args.context - first)
            k, v = (rows(SMOLLM2.kv_heads, tokens).astype(np.float16) for _ in "kv")
            for layer in range(SMOLLM2.layers):
                store.append(layer, sequences, k, v)
        for _ in range(args.steps):
            q = rows(SMOLLM2.query_heads, 1)
            k, v = (rows(SMOLLM2.kv_heads, 1).astype(np.float16) for _ in "kv")
            for layer in range(SMOLLM2.layers):
                store.attend(layer, sequences, q, k, v, scale=0.125)
        stats = store.stats()
        return {
            "context": args.context,
            "anonymous_nbytes": anonymous_nbytes(),
            "kv_nbytes": sum(card.kv_nbytes for card in stats.cards),
            "resident_nbytes": sum(card.resident_nbytes for card in stats.cards),
            "streamed_nbytes": sum(card.streamed_nbytes for card in stats.cards),
        }


def in_a_process(args: argparse.Namespace, context: int) -> dict[str, int]:
    command = [sys.executable, __file__, "--child", "--context", str(context)]
    for name in ("batch", "cards", "dram", "steps", "io"):
        command += [f"--{name}", str(getattr(args, name))]
    found: dict[str, int] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--context", type=whole(), default=8192)
    parser.add_argument("--batch", type=whole(), default=4)
    parser.add_argument("--cards", type=whole(), default=2)
    parser.add_argument("--dram", default="64M")
    parser.add_argument("--steps", type=whole(), default=2)
    parser.add_argument("--io", default="direct", choices=("direct", "buffered"))
    parser.add_argument("--child", action="store_true", help="measure in this process and print JSON")
    parser.add_argument("--out", type=Path, default=Path("build/benchmarks/host_memory.json"))
    args = parser.parse_args()
    if args.child:
        json.dump(run(args), sys.stdout)
        return
    rows = [in_a_process(args, context) for context in (SHORT, args.context)]
    growth = rows[1]["anonymous_nbytes"] - rows[0]["anonymous_nbytes"]
    table = Table("context", "anonymous", "KV stored", "in card memory", "streamed")
    for row in rows:
        table.add_row(str(row["context"]), *(f"{n / 2**20:,.0f} MiB" for name, n in row.items() if name != "context"))
    text = f"batch {args.batch}, {args.cards} cards of {args.dram}; growth {growth / 2**20:,.0f} MiB"
    Console(width=110).print(table, text)
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text(json.dumps({"name": "host_memory", "rows": rows, "growth_nbytes": growth}, indent=2) + "\n")


if __name__ == "__main__":
    main()
