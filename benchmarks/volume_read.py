# SPDX-License-Identifier: Apache-2.0
"""Reads of a volume's file with O_DIRECT, beside fio's sequential O_DIRECT reads of the same file, in turns.

    python benchmarks/volume_read.py --folder FOLDER --out build/benchmarks/volume_read.json

Both read with each request size; a plateau is the best median over the sizes. The order changes from round to round,
since a drive that others use has good and bad moments. Where huge pages are reserved (`sysctl vm.nr_hugepages=90`) fio
also reads into those, as the volume's reader does wherever the kernel grants them. Without fio the benchmark says so,
and shows its own figures.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from statistics import median

from arguments import number, whole
from nearkv.device_io import device_bytes, since
from nearkv.planner.calibration import copy_rate
from nearkv.rates import above, flag
from nearkv.requests import DEPTH, Requests
from nearkv_driver.filesystem import filesystem_of
from nearkv_driver.pagestore import PageFile, aligned_buffer
from rich.console import Console
from rich.table import Table

MIB = 1 << 20
# A group of extents of SmolLM2-135M is 2.8 MiB per 128 tokens and card; neighbours are read in one request.
SIZES = (256 << 10, MIB, 4 * MIB)
GOAL = 0.85
FIO = "fio libaio"
FIO_HUGE = "fio libaio, huge pages"


@dataclass(frozen=True)
class Row:
    """Rates in bytes per second, one per round."""

    reader: str
    request_nbytes: int
    in_flight: int
    rates: tuple[float, ...]

    @property
    def median(self) -> float:
        return median(self.rates)


def make_file(path: Path, nbytes: int) -> None:
    """Written, not sparse: a hole would be read from nowhere."""
    block = aligned_buffer(16 * MIB)
    block[:] = bytes(range(256)) * (16 * MIB // 256)
    with PageFile.open(path, create=True) as file:
        file.grow(nbytes)
        for offset in range(0, nbytes, block.nbytes):
            file.write(block, offset)
        file.sync()


def read_all(path: Path, block: int, memory: memoryview, requests: Requests) -> float:
    """The whole file once, as the store reads extents; bytes per second."""
    with PageFile.open(path, create=False) as file:
        size = file.size
        places = memory.nbytes // block
        calls = []
        for i, offset in enumerate(range(0, size, block)):
            at = i % places * block
            calls.append(partial(file.read_into, memory[at : at + block], offset))
        began = time.perf_counter()
        requests.run(calls)
        seconds = time.perf_counter() - began
        assert file.io == "direct"
        assert file.read_nbytes == size
    return size / seconds


def reserved_nbytes() -> int:
    """Huge pages that are reserved and free."""
    facts = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines())
    free, size = facts.get("HugePages_Free", "0"), facts.get("Hugepagesize", "0 kB")
    return int(free) * int(size.split()[0]) * 1024


def fio(path: Path, block: int, depth: int, memory: str = "malloc") -> float:
    """fio's own figure for one pass over the file."""
    command = ["fio", "--name=read", f"--filename={path}", "--readonly", "--rw=read", "--direct=1", f"--bs={block}"]
    command += ["--ioengine=libaio", f"--iodepth={depth}", "--output-format=json", "--invalidate=0"]
    command.append(f"--iomem={memory}")
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    return float(json.loads(ran.stdout)["jobs"][0]["read"]["bw_bytes"])


def measure(path: Path, rounds: int) -> list[Row]:
    memory = aligned_buffer(2 * DEPTH * max(SIZES))
    memory[:] = bytes(memory.nbytes)  # in use before, as staging buffers are
    requests = Requests("benchmark")
    readers: dict[tuple[str, int], Callable[[], float]] = {
        ("volume file", block): partial(read_all, path, block, memory, requests) for block in SIZES
    }
    if shutil.which("fio"):
        readers |= {(FIO, block): partial(fio, path, block, DEPTH) for block in SIZES}
        if reserved_nbytes() >= DEPTH * max(SIZES) + 2 * MIB:
            readers |= {(FIO_HUGE, block): partial(fio, path, block, DEPTH, "shmhuge") for block in SIZES}
    read_all(path, max(SIZES), memory, requests)
    rates: dict[tuple[str, int], list[float]] = {key: [] for key in readers}
    order = random.Random(1)
    for _ in range(rounds):
        for key in order.sample(list(readers), len(readers)):
            rates[key].append(readers[key]())
    requests.close()
    return [Row(name, block, DEPTH, tuple(found)) for (name, block), found in rates.items()]


def counted_share(path: Path) -> float | None:
    """Bytes that the system counts as read from devices, over those of one pass; None where it does not tell."""
    memory, requests = aligned_buffer(2 * DEPTH * MIB), Requests("benchmark")
    before = device_bytes()
    read_all(path, MIB, memory, requests)
    counted = since(before)
    requests.close()
    return None if counted is None else counted.read / path.stat().st_size


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=Path("build/benchmarks"), help="where the file is made")
    parser.add_argument("--mib", type=whole(), default=1024)
    parser.add_argument("--rounds", type=whole(), default=7)
    parser.add_argument("--out", type=Path, default=Path("build/benchmarks/volume_read.json"))
    parser.add_argument(
        "--link", type=number(0, above=True), help="GB/s that the drive's link carries; default: of a copy in memory"
    )
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="volume-read-", dir=args.folder) as private:
        path = Path(private) / "data-000000.pages"
        make_file(path, args.mib * MIB)
        kind = filesystem_of(path)
        rows = measure(path, args.rounds)
        counted = counted_share(path)
    limit = copy_rate(time.perf_counter) if args.link is None else args.link * 1e9
    table = Table("reader", "request", "in flight", "median GB/s", "lowest", "highest")
    for row in rows:
        figures = (row.median, min(row.rates), max(row.rates))
        table.add_row(
            row.reader, f"{row.request_nbytes >> 10} KiB", str(row.in_flight), *(f"{x / 1e9:.2f}" for x in figures)
        )
    console = Console(width=110)
    console.print(table, f"{args.mib} MiB on {kind}, O_DIRECT, {args.rounds} rounds in turns")
    device = "not counted by the system" if counted is None else f"{counted:.1%} of what a reader asked for"
    console.print(f"bytes from devices: {device}")
    whose = "a copy in memory" if args.link is None else "--link"
    for row in rows:
        if told := flag(row.median, limit, whose):
            console.print(f"{row.reader}, {row.request_nbytes >> 10} KiB: {row.median / 1e9:.2f} GB/s{told}")
    ratio = None
    if any(row.reader == FIO for row in rows):
        ours = max(row.median for row in rows if row.reader == "volume file")
        ratio = ours / max(row.median for row in rows if row.reader in (FIO, FIO_HUGE))
        console.print(f"{ratio:.2f} of fio's plateau; the goal is {GOAL}: {'reached' if ratio >= GOAL else 'missed'}")
    else:
        console.print("fio is not installed (Debian package fio): nothing to compare with")
    args.out.parent.mkdir(parents=True, exist_ok=True)
    found: dict[str, object] = {
        "name": "volume_read",
        "filesystem": kind,
        "mib": args.mib,
        "ratio": ratio,
        "goal": GOAL,
    }
    found |= {"device_share": counted, "limit_bytes_per_s": limit}
    told_rows = [asdict(row) | {"above_limit": above(row.median, limit)} for row in rows]
    args.out.write_text(json.dumps({**found, "rows": told_rows}, indent=2) + "\n")


if __name__ == "__main__":
    main()
