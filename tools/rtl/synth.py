# SPDX-License-Identifier: Apache-2.0
"""Synthesises fpga/rtl with Yosys for the KU15P: what it takes, how deep its logic is, what has risen.

    python -m tools.rtl.synth               tables; exits with 1 when a figure has risen or a goal is missed
    python -m tools.rtl.synth --update      keeps the figures: fpga/rtl/synthesis.toml and the tables in docs/
    python -m tools.rtl.synth --path NAME   shows the longest path that ends in a module, net by net

Nothing is placed or routed, so there is no clock speed here.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping
from pathlib import Path

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from tools.rtl import area, baseline, synth_tables
from tools.rtl.baseline import Baseline
from tools.rtl.depth import Route
from tools.rtl.netlist import Variant
from tools.rtl.sources import Sources
from tools.rtl.synthesis import Synthesis

ROOT = Path(__file__).parents[2]
TOP = "nearkv_attend"
RTL = Path("fpga/rtl")
KEPT = RTL / "synthesis.toml"
PAGE = Path("docs/rtl-synthesis.md")
DOCS = Path("docs/rtl.md")
# columns that the tables need
WIDTH = 150


def main(argv: list[str]) -> int:
    """Measures and shows; the exit code says whether somebody has to look."""
    options = _options(argv)
    console = Console()
    # A log is not a terminal; its lines may be as long as the tables.
    console.width = max(console.width, WIDTH)
    sources = Sources(ROOT / RTL)
    now, routes = _measured(sources, Synthesis(sources, options.cache), options.jobs, console)
    if options.path is not None:
        return _show_path(routes, options.path, console)
    for table in (_modules(now), _stages(now)):
        console.print(table)
    findings = synth_tables.missed(baseline.whole(now.modules))
    if options.update:
        write(ROOT, now)
    else:
        findings += _compared(ROOT / KEPT, now)
    for finding in findings:
        sys.stderr.write(f"{finding}\n")
    return 1 if findings else 0


def write(root: Path, kept: Baseline) -> None:
    """Keeps figures in a repository, and shows them in its docs."""
    docs = root / DOCS
    text = synth_tables.replaced(docs.read_text(), synth_tables.summary(kept))
    (root / KEPT).write_text(baseline.dump(kept))
    (root / PAGE).write_text(synth_tables.page(kept))
    docs.write_text(text)


def _options(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tools.rtl.synth", description=__doc__.splitlines()[0])
    parser.add_argument("--update", action="store_true", help="keep the figures as the new baseline")
    parser.add_argument("--path", metavar="MODULE", help="show the longest path that ends in this module")
    parser.add_argument("--jobs", type=_jobs, default=len(os.sched_getaffinity(0)), help="runs of Yosys at a time")
    parser.add_argument("--cache", type=Path, help="folder of finished netlists")
    return parser.parse_args(argv)


def _jobs(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of at least 1")
    return int(text)


def _measured(
    sources: Sources, synthesis: Synthesis, jobs: int, console: Console
) -> tuple[Baseline, Mapping[str, Route]]:
    with Progress(console=console, transient=True) as bar:
        task = bar.add_task("synthesis", total=len(sources.count(TOP)))

        def done(variant: Variant) -> None:
            bar.update(task, advance=1, description=variant.module)

        return area.measure(sources, synthesis, TOP, jobs, done)


def _compared(path: Path, now: Baseline) -> list[str]:
    if not path.exists():
        return [f"{path} is missing; --update writes it"]
    kept = baseline.load(path)
    if kept.yosys != now.yosys:
        return [f"{path} holds figures of Yosys {kept.yosys}, these are of {now.yosys}; they do not compare"]
    return baseline.rises(kept.modules, now.modules) + baseline.deeper(kept.stages, now.stages)


def _modules(kept: Baseline) -> Table:
    table = Table("module", title=f"{TOP}, Yosys {kept.yosys}")
    for column in ("instances", *synth_tables.COLUMNS, "levels alone", "levels through"):
        table.add_column(column, justify="right")
    for row in synth_tables.rows(kept):
        depths = (synth_tables.length(row.alone), synth_tables.length(row.through))
        table.add_row(row.module, str(row.instances), *synth_tables.figures(row.resources), *depths)
    total = baseline.whole(kept.modules)
    table.add_section()
    table.add_row("in all", "", *synth_tables.figures(total))
    table.add_row("of the KU15P", "", *synth_tables.shares(total))
    return table


def _stages(kept: Baseline) -> Table:
    table = Table("levels", "from", "to", title="longest paths; levels + CARRY4s")
    for stage in sorted(kept.stages.values(), key=lambda stage: stage.depth, reverse=True)[: synth_tables.STAGES_SHOWN]:
        table.add_row(synth_tables.length(stage.depth), stage.source, stage.target)
    return table


def _show_path(routes: Mapping[str, Route], module: str, console: Console) -> int:
    if module not in routes:
        sys.stderr.write(f"no path ends in {module}; paths end in {', '.join(routes)}\n")
        return 2
    for depth, name in routes[module].stops:
        console.print(f"{synth_tables.length(depth):>8}  {name}", markup=False, highlight=False)
    console.print(f"{'':>8}  {routes[module].target}", markup=False, highlight=False)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
