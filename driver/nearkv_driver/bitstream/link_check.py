# SPDX-License-Identifier: Apache-2.0
"""Checks a link configuration against the card and the kernel before a tool runs for hours: every rule, by line.

Sections that do not place the kernel ([vivado], [advanced] ...) go to v++ as they are.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

from nearkv_driver.bitstream.finding import Finding
from nearkv_driver.bitstream.link_file import Entry, parse_link
from nearkv_driver.bitstream.platforms import Platform
from nearkv_driver.bitstream.request import FREQUENCY_MHZ
from nearkv_driver.xclbin.kernel import Kernel

_STREAMS = frozenset(("sc", "stream_connect"))
_CONNECTIVITY = frozenset(("nk", "sp", "slr", "connect")) | _STREAMS
# Above a section: what belongs to the command line, which `commands` writes.
_OURS = frozenset(("target", "t", "temp_dir", "log_dir", "report_dir", "output", "o", "kernel", "k"))
_NUMBER = re.compile(r"\d{1,6}", re.ASCII)
_NAME = re.compile(r"[A-Za-z]\w{0,40}", re.ASCII)
# A list and its pages need room; PLRAM has less.
_NBYTES_MIN = 64 << 20


@dataclass(frozen=True)
class Unit:
    """A compute unit: its memory, and its die where the configuration names one."""

    name: str
    tag: str
    slr: str | None


@dataclass(frozen=True)
class Link:
    """What a sound configuration says; `frequency_mhz` None leaves the clock to the command line."""

    units: tuple[Unit, ...]
    frequency_mhz: int | None


def check_link(text: str, platform: Platform, kernel: Kernel) -> tuple[Link | None, tuple[Finding, ...]]:
    """All findings, in order of lines; no `Link` when one of them is an error."""
    entries, findings = parse_link(text)
    check = _Check(platform, kernel, findings)
    frequency = check.top(entries)
    names = check.units(entries)
    tags = check.memories(entries, names)
    slrs = check.dies(entries, names)
    ordered = tuple(sorted(check.findings, key=lambda finding: finding.line))
    if any(finding.is_error for finding in ordered):
        return None, ordered
    return Link(tuple(Unit(name, tags[name], slrs.get(name)) for name in names), frequency), ordered


class _Check:
    """The rules; what breaks one is added to `findings`."""

    def __init__(self, platform: Platform, kernel: Kernel, findings: list[Finding]) -> None:
        self._platform, self._kernel, self.findings = platform, kernel, findings
        self._pointers = {a.name: a.name for a in kernel.arguments if a.pointer}
        self._ports = self._pointers | {a.port: a.name for a in kernel.arguments if a.pointer}

    def _error(self, line: int, text: str) -> None:
        self.findings.append(Finding(line, text))

    def top(self, entries: list[Entry]) -> int | None:
        """Keys above the first section. The kernel's clock, where it is set."""
        frequency = None
        for entry in (e for e in entries if not e.section):
            if entry.key == "platform":
                name = entry.value.rsplit("/", 1)[-1].removesuffix(".xpfm")
                if name not in self._platform.platforms:
                    known = " or ".join(self._platform.platforms)
                    self._error(entry.line, f"platform={entry.value}; {self._platform.key} is {known}")
            elif entry.key == "kernel_frequency":
                if frequency is not None:
                    self._error(entry.line, "kernel_frequency stands twice")
                frequency = self._frequency(entry)
            elif entry.key in _OURS:
                self._error(entry.line, f"{entry.key}= is set by the build itself")
        for entry in (e for e in entries if e.section == "clock"):
            self._error(entry.line, "[clock] is not read back from the result; use kernel_frequency= or --frequency")
        return frequency

    def _frequency(self, entry: Entry) -> int | None:
        """`300`, or `0:300|1:500` by clock; the kernel runs on clock 0."""
        clocks: dict[str, str] = {}
        for part in entry.value.split("|"):
            number, _, mhz = part.rpartition(":")
            clocks[number.strip() or "0"] = mhz.strip()
        numbers = [number for pair in clocks.items() for number in pair]
        if "0" not in clocks or not all(_NUMBER.fullmatch(number) for number in numbers):
            self._error(entry.line, f"kernel_frequency={entry.value}; MHz, or 0:MHz|1:MHz, is expected")
            return None
        if int(clocks["0"]) not in FREQUENCY_MHZ:
            allowed = f"{FREQUENCY_MHZ[0]} to {FREQUENCY_MHZ[-1]}"
            self._error(entry.line, f"a kernel clock of {clocks['0']} MHz; {allowed} MHz is allowed")
            return None
        return int(clocks["0"])

    def units(self, entries: list[Entry]) -> list[str]:
        """Names of the compute units, from nk=; one unit of the usual name without it."""
        name, names, found = self._kernel.name, [f"{self._kernel.name}_1"], 0
        for entry in (e for e in entries if e.section == "connectivity"):
            if entry.key in _STREAMS:
                self._error(entry.line, f"{entry.key}: kernel {name} has no streams")
            elif entry.key not in _CONNECTIVITY:
                self._error(entry.line, f"{entry.key}= in [connectivity]; known are {', '.join(sorted(_CONNECTIVITY))}")
            elif entry.key == "nk":
                found = self._count(entry, found)
                names = self._names(entry) or names
        return names

    def _count(self, entry: Entry, before: int) -> int:
        if before:
            self._error(entry.line, f"nk= stands twice; the first one is at line {before}")
        return before or entry.line

    def _names(self, entry: Entry) -> list[str]:
        """The instances of one nk=KERNEL:COUNT:NAME.NAME; [] when it is no good."""
        kernel, _, rest = entry.value.partition(":")
        count, _, listed = rest.partition(":")
        if kernel != self._kernel.name:
            self._error(entry.line, f"nk= of kernel {kernel!r}; the kernel is {self._kernel.name!r}")
            return []
        most = self._platform.cus_max
        if not _NUMBER.fullmatch(count) or not 1 <= int(count) <= most:
            self._error(entry.line, f"nk= of {count or 'no'} compute units; {self._platform.key} takes 1 to {most}")
            return []
        if not listed:
            return [f"{kernel}_{number + 1}" for number in range(int(count))]
        names = listed.split(".")
        twice = sorted(name for name, times in Counter(names).items() if times > 1)
        if len(names) != int(count):
            self._error(entry.line, f"nk= counts {count} compute units and names {len(names)}")
        elif bad := [name for name in names if not _NAME.fullmatch(name)]:
            self._error(entry.line, f"nk= names {bad[0]!r}; letters, digits and _ are allowed, 41 at most")
        elif twice:
            self._error(entry.line, f"nk= names {twice[0]!r} twice")
        else:
            return names
        return []

    def memories(self, entries: list[Entry], names: list[str]) -> dict[str, str]:
        """The memory of each unit: every argument connected once, and all of a unit to the same memory."""
        reached: dict[str, dict[str, Entry]] = {name: {} for name in names}
        tags: dict[tuple[str, str], str] = {}
        for entry in (e for e in entries if e.section == "connectivity" and e.key == "sp"):
            target, _, tag = entry.value.partition(":")
            unit, _, port = target.partition(".")
            if unit not in reached:
                self._error(entry.line, f"sp= of {unit!r}; compute units are {', '.join(names)}")
                continue
            argument = self._ports.get(port)
            if argument is None:
                known = ", ".join(sorted(self._ports))
                self._error(entry.line, f"sp= of {unit}.{port}; arguments and ports are {known}")
                continue
            if argument in reached[unit]:
                line = reached[unit][argument].line
                self._error(entry.line, f"{unit}.{argument} is connected twice; the first one is at line {line}")
                continue
            reached[unit][argument] = entry
            if self._allowed(entry.line, tag):
                tags[unit, argument] = tag
        for unit, found in reached.items():
            self._one_memory(unit, found, {a: t for (u, a), t in tags.items() if u == unit})
        return {unit: tag for (unit, _), tag in tags.items()}

    def _allowed(self, line: int, tag: str) -> bool:
        try:
            place = self._platform.place(tag)
        except ValueError as error:
            self._error(line, str(error))
            return False
        if place.nbytes < _NBYTES_MIN:
            self._error(line, f"{tag} has {place.nbytes} bytes; pages and lists need {_NBYTES_MIN} at least")
            return False
        if not place.memory.p2p:
            text = f"a drive cannot write to {tag} of {self._platform.key} directly: pages will go through host memory"
            self.findings.append(Finding(line, text, is_error=False))
        return True

    def _one_memory(self, unit: str, found: dict[str, Entry], tags: dict[str, str]) -> None:
        missing = [argument for argument in self._pointers if argument not in found]
        if missing:
            self._error(0, f"{unit}: no sp= for {', '.join(missing)}; v++ would choose a memory by itself")
        first = next(iter(tags.values()), "")
        for argument, tag in tags.items():
            if tag != first:
                text = f"{unit}.{argument} is on {tag}, the one before on {first}; a compute unit has one memory"
                self._error(found[argument].line, text)
                return

    def dies(self, entries: list[Entry], names: list[str]) -> dict[str, str]:
        """The die of each unit that slr= names."""
        found: dict[str, str] = {}
        for entry in (e for e in entries if e.section == "connectivity" and e.key == "slr"):
            unit, _, slr = entry.value.partition(":")
            if unit not in names:
                self._error(entry.line, f"slr= of {unit!r}; compute units are {', '.join(names)}")
            elif not self._platform.slrs:
                self._error(entry.line, f"{self._platform.key} has one die and takes no slr=")
            elif slr not in self._platform.slrs:
                self._error(entry.line, f"{slr!r} of {unit}; {self._platform.key} has {', '.join(self._platform.slrs)}")
            elif unit in found:
                self._error(entry.line, f"{unit} is placed twice")
            else:
                found[unit] = slr
        return found
