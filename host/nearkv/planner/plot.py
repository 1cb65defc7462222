# SPDX-License-Identifier: Apache-2.0
"""A sweep as a picture: tokens per second over the swept parameter, a line per way to keep K and V.

matplotlib is imported when a picture is made. A line is dotted where the plan does not fit.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from nearkv.errors import UserError
from nearkv.planner.plan import Plan
from nearkv.planner.sweep import Sweep

FORMATS = ("png", "svg", "pdf")


def check_picture(path: Path) -> None:
    """UserError where the picture cannot be made, before the work."""
    if path.suffix.removeprefix(".") not in FORMATS:
        raise UserError(f"plot file {path}: a name that ends in {', '.join('.' + f for f in FORMATS)} is expected")
    try:
        import matplotlib  # noqa: F401
    except ModuleNotFoundError as error:
        raise UserError("a plot needs matplotlib, which is not installed: pip install 'nearkv[plan]'") from error


def draw(sweep: Sweep, plans: Sequence[Sequence[Plan]], path: Path) -> None:
    """One line per policy; points that do not fit are dotted. `plans`: for each value of the sweep one per policy.
    OSError where `path` cannot be written."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter, MaxNLocator, NullFormatter

    figure = Figure(figsize=(7, 4.2), layout="constrained")
    axes = figure.subplots()
    for column in range(len(plans[0])):
        line = [row[column] for row in plans]
        fitting = [plan.tokens_per_s if plan.fits else float("nan") for plan in line]
        drawn = axes.plot(sweep.values, fitting, marker="o", markersize=3, label=line[0].policy.name)
        if not all(plan.fits for plan in line):
            rest = [plan.tokens_per_s for plan in line]
            axes.plot(sweep.values, rest, linestyle=":", linewidth=1, color=drawn[0].get_color())
    first = plans[0][0]
    if sweep.values[0] > 0:
        axes.set_xscale("log", base=2)
    else:
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_yscale("log")
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: _count(value)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.set_xlabel(sweep.name)
    axes.set_ylabel("tokens/s while decoding")
    axes.set_title(_title(sweep, first), fontsize=10)
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "nearkv"}):
        figure.savefig(path, dpi=110, metadata={"Date": None} if path.suffix == ".svg" else None)


def _title(sweep: Sweep, plan: Plan) -> str:
    work, system = plan.work, plan.system
    parts = {
        "context": f"context {_count(work.context)}",
        "batch": f"batch {work.batch}",
        "cards": f"{system.cards} x {system.card.name}",
    }
    kept = [text for name, text in parts.items() if name != sweep.name]
    return ", ".join([work.model.name, *kept, system.gpu.name])


def _count(value: float) -> str:
    return f"{value / 1024:g}K" if value >= 1024 else f"{value:g}"
