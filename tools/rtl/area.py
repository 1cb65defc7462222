# SPDX-License-Identifier: Apache-2.0
"""Measures a design: resources and depth of each module by itself, depth through all of them. Compares nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from tools.rtl import depth, yosys
from tools.rtl.baseline import Baseline, Entry, Stage
from tools.rtl.netlist import Netlist, Variant
from tools.rtl.sources import Sources
from tools.rtl.synthesis import Synthesis


def entry(netlist: Netlist, digest: str, instances: int) -> Entry:
    """Figures of one mapped module."""
    return Entry(digest, instances, netlist.resources, depth.alone(netlist))


def measure(
    sources: Sources, synthesis: Synthesis, top: str, jobs: int, progress: Callable[[Variant], None]
) -> tuple[Baseline, Mapping[str, depth.Route]]:
    """All figures of a design, and the paths that its stages are taken from."""
    counts = sources.count(top)
    netlists = synthesis.netlists(counts, jobs, progress)
    modules = {str(v): entry(netlists[v], sources.digest(v), count) for v, count in counts.items()}
    routes = depth.through(netlists, sources.variant(top))
    stages = {name: Stage(route.depth, route.source, route.target) for name, route in routes.items()}
    return Baseline(yosys.version(), modules, stages), routes


def refreshed(sources: Sources, synthesis: Synthesis, top: str, known: Mapping[str, Entry]) -> dict[str, Entry]:
    """Figures of the modules as they are now; those whose text has not changed since `known` are taken from it."""
    found: dict[str, Entry] = {}
    for variant, count in sources.count(top).items():
        name, digest = str(variant), sources.digest(variant)
        if name in known and known[name].digest == digest:
            found[name] = replace(known[name], instances=count)
        else:
            found[name] = entry(synthesis.netlist(variant), digest, count)
    return found
