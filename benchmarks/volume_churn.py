# SPDX-License-Identifier: Apache-2.0
"""How space of a volume fares under churn: sessions of many sizes come and go at a steady fill. No card takes part.

First-fit runs of slots as the volume gives them out. Shown are the share of the free slots that the largest request
can use, and how much the file had to grow beyond what was ever in use at once.

    python benchmarks/volume_churn.py --out build/benchmarks/volume_churn.json
"""

from __future__ import annotations

import argparse
import json
import random
from dataclasses import asdict, dataclass
from pathlib import Path

from arguments import whole
from nearkv.runs import RunAllocator
from rich.console import Console
from rich.table import Table


@dataclass(frozen=True)
class Row:
    """After `operations` sessions made and removed. `usable`: free slots in runs that take the largest group."""

    heads: str
    operations: int
    slots: int
    most_used: int
    free: int
    usable: float

    @property
    def grown(self) -> float:
        return self.slots / self.most_used


def churn(heads: tuple[int, ...], operations: int, fill: int, seed: int = 1) -> Row:
    """`heads`: KV heads that a card has of a session, one of these each; a session has 1 to 64 extents and a partial
    unit, all of its runs as long as it has heads."""
    chooser, runs = random.Random(seed), RunAllocator()
    sessions: list[tuple[int, list[int]]] = []
    used = most = 0
    for _ in range(operations):
        while used > fill:
            count, places = sessions.pop(chooser.randrange(len(sessions)))
            for place in places:
                runs.release(place, count)
            used -= count * len(places)
        count = chooser.choice(heads)
        places = []
        for _ in range(1 + chooser.choice([1, 2, 4, 8, 16, 32, 64])):
            found = runs.take(count)
            if found is None:
                runs.grow(count)
                found = runs.take(count)
            assert found is not None
            places.append(found)
        sessions.append((count, places))
        used += count * len(places)
        most = max(most, used)
    largest = max(heads)
    usable = sum(n // largest * largest for _, n in runs._free)
    free = runs.free_slots
    return Row("/".join(map(str, heads)), operations, runs.slots, most, free, usable / free if free else 1.0)


def main() -> None:
    parser = argparse.ArgumentParser(description="Space of a volume under churn.")
    parser.add_argument("--operations", type=whole(), default=5000)
    parser.add_argument("--fill", type=whole(), default=2000, help="slots in use")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    table = Table("KV heads per session", "sessions", "slots of the file", "most in use", "file / most", "usable")
    found = [churn(heads, options.operations, options.fill) for heads in ((4,), (2, 3), (1, 2, 4), (1, 8))]
    for row in found:
        table.add_row(
            row.heads,
            str(row.operations),
            str(row.slots),
            str(row.most_used),
            f"{row.grown:.3f}",
            f"{row.usable:.0%} of {row.free}",
        )
    Console().print(table)
    if options.out:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps([asdict(row) for row in found], indent=2) + "\n")


if __name__ == "__main__":
    main()
