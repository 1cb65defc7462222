# SPDX-License-Identifier: Apache-2.0
"""What fpga/rtl took of a part when somebody last looked: fpga/rtl/synthesis.toml, and what has risen since.

Keeps and compares figures; measures nothing.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from tools.rtl.cells import RESOURCES, Resources
from tools.rtl.depth import Depth

# A figure may rise by this share before somebody has to look at it, or by as many units where that is more:
# a module of ten LUTs that takes an eleventh is no news.
SHARE = 0.05
SLACK = {"luts": 4, "flip_flops": 4, "levels": 1}

_HEAD = """# SPDX-License-Identifier: Apache-2.0
# What Yosys counts in fpga/rtl. Written by `python -m tools.rtl.synth --update`; do not edit.
# `digest` says of which text of a module.
"""


@dataclass(frozen=True)
class Entry:
    """One module with its parameters, without what it instantiates: figures are those of one instance."""

    digest: str
    instances: int
    resources: Resources
    # of the module alone: ports and instances taken for registers
    depth: Depth


@dataclass(frozen=True)
class Stage:
    """The longest path through the whole design that ends in a module."""

    depth: Depth
    source: str
    target: str


@dataclass(frozen=True)
class Baseline:
    """Everything that is kept; modules by name and parameters, stages by the name of the module alone."""

    yosys: str
    modules: dict[str, Entry]
    stages: dict[str, Stage]


def load(path: Path) -> Baseline:
    """Reads a file that `dump` wrote."""
    data = tomllib.loads(path.read_text())
    modules = {
        name: Entry(
            table["digest"],
            table["instances"],
            Resources(**{resource: table[resource] for resource in RESOURCES}),
            Depth(table["levels"], table["carries"]),
        )
        for name, table in data["modules"].items()
    }
    stages = {
        name: Stage(Depth(table["levels"], table["carries"]), table["source"], table["target"])
        for name, table in data["stages"].items()
    }
    return Baseline(data["yosys"], modules, stages)


def dump(baseline: Baseline) -> str:
    """The text of the file."""
    parts = [_HEAD, f'yosys = "{baseline.yosys}"\n']
    for name, entry in sorted(baseline.modules.items()):
        fields = {"digest": entry.digest, "instances": entry.instances}
        parts.append(_table("modules", name, fields | asdict(entry.resources) | asdict(entry.depth)))
    for name, stage in sorted(baseline.stages.items()):
        parts.append(_table("stages", name, asdict(stage.depth) | {"source": stage.source, "target": stage.target}))
    return "\n".join(parts)


def totals(modules: Mapping[str, Entry]) -> dict[str, Resources]:
    """What all instances of each module take, whatever their parameters."""
    found: dict[str, Resources] = {}
    for name, entry in modules.items():
        module = name.split()[0]
        found[module] = found.get(module, Resources()) + entry.resources.times(entry.instances)
    return found


def whole(modules: Mapping[str, Entry]) -> Resources:
    """What the design takes."""
    return sum(totals(modules).values(), Resources())


def rises(before: Mapping[str, Entry], after: Mapping[str, Entry]) -> list[str]:
    """One sentence for each figure that has risen by too much: of a module, of all its instances, of the design."""
    found: list[str] = []
    for name, entry in after.items():
        if name in before:
            old = asdict(before[name].resources) | {"levels": before[name].depth.levels}
            new = asdict(entry.resources) | {"levels": entry.depth.levels}
            found += _risen(name, old, new)
    old_totals, new_totals = totals(before), totals(after)
    for module, resources in new_totals.items():
        if module in old_totals:
            found += _risen(f"all {module}", asdict(old_totals[module]), asdict(resources))
        else:
            found.append(f"{module}: a new module, {resources}")
    found += _risen("the whole design", asdict(whole(before)), asdict(whole(after)))
    return found


def deeper(before: Mapping[str, Stage], after: Mapping[str, Stage]) -> list[str]:
    """The same for the paths through the design."""
    found: list[str] = []
    for name, stage in after.items():
        old = before[name].depth.levels if name in before else 0
        found += _risen(f"paths to {name}", {"levels": old}, {"levels": stage.depth.levels})
    return found


def _risen(name: str, before: Mapping[str, int], after: Mapping[str, int]) -> Iterator[str]:
    for figure, number in after.items():
        allowed = before[figure] + max(int(before[figure] * SHARE), SLACK.get(figure, 0))
        if number > allowed:
            yield f"{name}: {figure} rose from {before[figure]} to {number}; up to {allowed} passes unnoticed"


def _table(kind: str, name: str, fields: Mapping[str, object]) -> str:
    lines = (f'{key} = "{value}"' if isinstance(value, str) else f"{key} = {value}" for key, value in fields.items())
    return "\n".join([f'[{kind}."{name}"]', *lines, ""])
