# SPDX-License-Identifier: Apache-2.0
"""The cards that an xclbin can be built for: platform names, dies, memories by tag. The data is in `platforms.toml`."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path

_FILE = Path(__file__).with_name("platforms.toml")
_TAG = re.compile(r"([A-Za-z]\w*)(?:\[(\d{1,4})(?::(\d{1,4}))?\])?", re.ASCII)


@dataclass(frozen=True)
class Memory:
    """One kind of memory; `channels` 0 means that its name alone is the tag."""

    name: str
    channels: int
    nbytes: int
    p2p: bool

    def tags(self) -> str:
        return f"{self.name}[0:{self.channels - 1}]" if self.channels else self.name


@dataclass(frozen=True)
class Place:
    """What a tag names: a memory and how many bytes of it."""

    memory: Memory
    nbytes: int


@dataclass(frozen=True)
class Platform:
    """One card; see platforms.toml for the fields."""

    key: str
    title: str
    platforms: tuple[str, ...]
    part: str
    vitis: tuple[str, ...]
    slrs: tuple[str, ...]
    cus_max: int
    frequency_mhz: int
    home: str
    memories: tuple[Memory, ...]

    def place(self, tag: str) -> Place:
        """The memory of a tag such as `bank0`, `DDR[1]` or `HBM[0:3]`. ValueError says which there are."""
        allowed = ", ".join(memory.tags() for memory in self.memories)
        match = _TAG.fullmatch(tag)
        if match is None:
            raise ValueError(f"{tag!r} is no memory tag; {self.key} has {allowed}")
        name, first, last = match.groups()
        memory = next((m for m in self.memories if m.name == name), None)
        if memory is None or (first is None) != (memory.channels == 0):
            raise ValueError(f"{self.key} has no memory {tag!r}; it has {allowed}")
        if first is None:
            return Place(memory, memory.nbytes)
        low, high = int(first), int(last or first)
        if not low <= high < memory.channels:
            raise ValueError(f"{tag!r} is outside {memory.tags()} of {self.key}")
        return Place(memory, (high - low + 1) * memory.nbytes)

    def tag_of(self, unit: int, cus: int) -> str:
        """The memory of one of `cus` compute units.

        A unit has one bank: its kv master reads what its out master wrote. Banks with channels are divided, in powers
        of two and never across the middle, where the two stacks of HBM meet.
        """
        home = next(memory for memory in self.memories if memory.name == self.home)
        if home.channels == 0:
            return home.name
        span = home.channels // 2
        while span * cus > home.channels:
            span //= 2
        return f"{home.name}[{unit * span}:{unit * span + span - 1}]"

    def slr_of(self, unit: int) -> str | None:
        return self.slrs[unit % len(self.slrs)] if self.slrs else None


def load_platforms(file: Path = _FILE) -> dict[str, Platform]:
    """The table by short name."""
    found = {}
    for key, entry in tomllib.loads(file.read_text()).items():
        memories = tuple(Memory(**memory) for memory in entry.pop("memories"))
        lists = {name: tuple(value) for name, value in entry.items() if isinstance(value, list)}
        found[key] = Platform(key=key, memories=memories, **(entry | lists))
    return found
