# SPDX-License-Identifier: Apache-2.0
"""Reads the reports of place and route: slack by clock, resources of the device and of the kernel. Judges nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

# Reports after the last step that changes the netlist go before those after routing.
_TIMING = (r"timing_summary_postroute_physopted\.rpt$", r"timing_summary_routed\.rpt$", r"timing_summary\.rpt$")
_KERNEL = (r"kernel_util_routed\.rpt$",)
_DEVICE = (r"full_util_routed\.rpt$", r"(?<!slr_)(?<!kernel_)util(ization)?_routed\.rpt$")
_COLUMNS = ("WNS(ns)", "TNS(ns)", "TNS Failing Endpoints", "WHS(ns)", "WPWS(ns)")
# Rows of report_utilization; the names of older releases first.
_RESOURCES = {
    "lut": ("CLB LUTs", "CLB LUTs*", "Slice LUTs"),
    "ff": ("CLB Registers", "Slice Registers"),
    "bram36": ("Block RAM Tile",),
    "uram": ("URAM",),
    "dsp": ("DSPs", "DSP Slices"),
}
_KERNEL_COLUMNS = {"LUT": "lut", "REG": "ff", "BRAM": "bram36", "URAM": "uram", "DSP": "dsp"}


@dataclass(frozen=True)
class Timing:
    """Slack in ns of the whole design; None where the report has none. `clock` has the least set-up slack."""

    wns_ns: float | None
    tns_ns: float | None
    failing_endpoints: int | None
    whs_ns: float | None
    wpws_ns: float | None
    clock: str | None
    file: Path

    @property
    def setup_met(self) -> bool:
        return self.wns_ns is not None and self.wns_ns >= 0

    @property
    def others_met(self) -> bool:
        """Hold and pulse width, which no slower clock repairs."""
        return all(slack is None or slack >= 0 for slack in (self.whs_ns, self.wpws_ns))


@dataclass(frozen=True)
class Use:
    """`used` of `available` of one resource; BRAM counts blocks of 36 Kb."""

    used: float
    available: float | None

    @property
    def percent(self) -> float | None:
        return round(100 * self.used / self.available, 2) if self.available else None


@dataclass(frozen=True)
class Utilisation:
    """By resource, {} where no report says. `kernel` is what the compute units use."""

    device: dict[str, Use]
    kernel: dict[str, Use]


class ReportError(ValueError):
    """A report that is there and cannot be understood."""


def read_timing(folders: list[Path]) -> Timing | None:
    """From the best report under the folders; None where there is none. ReportError names the file."""
    file = _best(folders, _TIMING)
    if file is None:
        return None
    lines = file.read_text(errors="replace").splitlines()
    row = _row(lines, "Design Timing Summary", file)
    return Timing(
        wns_ns=_float(row["WNS(ns)"], file),
        tns_ns=_float(row["TNS(ns)"], file),
        failing_endpoints=_whole(row["TNS Failing Endpoints"], file),
        whs_ns=_float(row["WHS(ns)"], file),
        wpws_ns=_float(row["WPWS(ns)"], file),
        clock=_worst_clock(lines),
        file=file,
    )


def read_utilisation(folders: list[Path]) -> Utilisation:
    """From the best reports under the folders; an empty part where there is none."""
    device, kernel = _best(folders, _DEVICE), _best(folders, _KERNEL)
    return Utilisation(_device(device) if device else {}, _kernel(kernel) if kernel else {})


def _best(folders: list[Path], patterns: tuple[str, ...]) -> Path | None:
    """A file that fits the first pattern that any does: the newest, in the first folder that has one."""
    for pattern in patterns:
        for folder in folders:
            found = [path for path in folder.rglob("*.rpt") if re.search(pattern, path.name)]
            if found:
                return max(found, key=lambda path: (path.stat().st_mtime_ns, str(path)))
    return None


def _row(lines: list[str], title: str, file: Path) -> dict[str, str]:
    """The first row of values of the table under a title."""
    start = next((i for i, line in enumerate(lines) if re.fullmatch(rf"\|\s*{title}\s*", line)), None)
    head = next((i for i, line in enumerate(lines) if start is not None and i > start and "WNS(ns)" in line), None)
    if head is None or head + 2 >= len(lines):
        raise ReportError(f"{file}: no table {title!r}")
    names, values = re.split(r"\s{2,}", lines[head].strip()), lines[head + 2].split()
    row = dict(zip(names, values, strict=False))
    missing = [name for name in _COLUMNS if name not in row]
    if missing:
        raise ReportError(f"{file}: the table {title!r} has no {', '.join(missing)}")
    return row


def _worst_clock(lines: list[str]) -> str | None:
    """Of the table of clocks; None where none has a slack."""
    worst: tuple[float, str] | None = None
    for name, text in _clocks(lines):
        slack = _number(text)
        if slack is not None and (worst is None or slack < worst[0]):
            worst = (slack, name)
    return worst[1] if worst else None


def _clocks(lines: list[str]) -> Iterator[tuple[str, str]]:
    start = next((i for i, line in enumerate(lines) if re.fullmatch(r"\|\s*Intra Clock Table\s*", line)), len(lines))
    head = next((i for i in range(start, len(lines)) if "WNS(ns)" in lines[i]), len(lines))
    for line in lines[head + 2 :]:
        words = line.split()
        if not words or line.startswith("-"):
            return
        if len(words) > 1:
            yield words[0], words[1]


def _device(file: Path) -> dict[str, Use]:
    """Rows of the tables of report_utilization whose first column is `Site Type`."""
    found: dict[str, Use] = {}
    head: list[str] = []
    for cells in _cells(file):
        if cells[0] == "Site Type":
            head = cells
            continue
        resource = next((key for key, names in _RESOURCES.items() if cells[0] in names), None)
        if resource is None or resource in found or len(cells) != len(head):
            continue
        used, available = (_number(dict(zip(head, cells, strict=True)).get(name, "")) for name in ("Used", "Available"))
        if used is not None:
            found[resource] = Use(used, available)
    return found


def _kernel(file: Path) -> dict[str, Use]:
    """`Used Resources` and `User Budget` of the kernel report; cells read `327707 [ 43.68%]`."""
    head: list[str] = []
    rows: dict[str, list[str]] = {}
    for cells in _cells(file):
        if cells[0] == "Name":
            head = cells
        elif head and len(cells) == len(head):
            rows.setdefault(cells[0], cells)
    found: dict[str, Use] = {}
    used, budget = rows.get("Used Resources"), rows.get("User Budget")
    for number, column in enumerate(head):
        value = _number(used[number].split("[")[0]) if used and column in _KERNEL_COLUMNS else None
        if value is not None:
            found[_KERNEL_COLUMNS[column]] = Use(value, _number(budget[number].split("[")[0]) if budget else None)
    return found


def _cells(file: Path) -> Iterator[list[str]]:
    for line in file.read_text(errors="replace").splitlines():
        if line.lstrip().startswith("|") and line.rstrip().endswith("|"):
            yield [cell.strip() for cell in line.strip()[1:-1].split("|")]


def _number(text: str) -> float | None:
    try:
        return float(text.strip())
    except ValueError:
        return None


def _float(text: str, file: Path) -> float | None:
    if text == "NA":
        return None
    value = _number(text)
    if value is None or value != value or value in (float("inf"), float("-inf")):
        raise ReportError(f"{file}: {text!r} is no slack")
    return value


def _whole(text: str, file: Path) -> int | None:
    value = _float(text, file)
    return None if value is None else int(value)
