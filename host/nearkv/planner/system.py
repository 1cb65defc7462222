# SPDX-License-Identifier: Apache-2.0
"""What is planned for: parts that are there, the work, and how the KV cache is kept. Values only; nothing is timed."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from nearkv_driver.regmap import NEW_TOKENS_MAX

from nearkv.errors import UserError
from nearkv.planner.hardware import Card, Drive, Gpu, Host
from nearkv.planner.hardware_files import load
from nearkv.planner.models import ModelShape

COUNT_MAX = 1 << 12
TOKENS_MAX = 1 << 24
# What a sweep may go over: least and most of each. Of new tokens that a job takes one is no draft.
RANGES = {
    "context": (1, TOKENS_MAX),
    "batch": (1, 1 << 16),
    "output": (1, TOKENS_MAX),
    "drafts": (0, NEW_TOKENS_MAX - 1),
    "cards": (1, COUNT_MAX),
}


def check_count(name: str, value: object) -> None:
    """UserError where `value` is no whole number in the range of `name`."""
    least, most = RANGES[name]
    if isinstance(value, bool) or not isinstance(value, int):
        raise UserError(f"{name} is {value!r}; a whole number is expected")
    if not least <= value <= most:
        raise UserError(f"{name} is {value}; {least} to {most} is allowed")


@dataclass(frozen=True)
class System:
    """`cards` of one kind beside one GPU in one host; `drives` are plain ones in the host."""

    gpu: Gpu
    host: Host
    card: Card
    cards: int
    drive: Drive
    drives: int


@dataclass(frozen=True)
class Work:
    """One decode step over `context` cached tokens of `batch` sequences. `drafts` tokens are verified with each, and a
    drafted token is right with probability `acceptance`. `output`: tokens that a request asks for."""

    model: ModelShape
    context: int
    batch: int = 16
    output: int = 64
    drafts: int = 0
    acceptance: float = 0.6

    def __post_init__(self) -> None:
        for name in ("context", "batch", "output", "drafts"):
            check_count(name, getattr(self, name))
        if not 0.0 <= self.acceptance < 1.0:
            raise UserError(f"acceptance is {self.acceptance}; 0 or more and below 1 is allowed")

    @property
    def queries(self) -> int:
        """Query tokens of a sequence in one step."""
        return 1 + self.drafts

    @property
    def tokens_per_step(self) -> float:
        """Expected new tokens of a sequence per step: the accepted drafts and the one that the step itself gives."""
        return sum(self.acceptance**i for i in range(self.queries))


NEAR, HOST_DRAM, HOST_DRAM_GPU, HOST_FILES, PLAIN, GPU_ONLY = (
    "cards", "host-dram", "host-dram-gpu", "host-ssd", "plain-ssd", "gpu"
)  # fmt: skip
# Which of the host's plain drives hold K and V, or the cards' drives used as such.
OWN_DRIVES, CARD_DRIVES = "drives", "card-drives"
ONE, APART = "one message", "apart"
# A spill of whole units: the fewest tokens that fill whole pages.
UNITS = -1


@dataclass(frozen=True)
class Policy:
    """Where K and V lie and what is done with them.

    read_ahead: pages of the next layer are read before its q is there. resident: pages that fit stay in card memory.
    kernel_rate: bytes per second of K and V, or None for the RTL's cycles. transfers: what goes to a card in a step is
    one message for all (ONE), or for each head and sequence apart, with what waits to be written again each step
    (APART). spill: tokens that are written at once, or UNITS; 0: each is written by itself before the step goes on.
    split_tokens: few heads are split over the cards by tokens. alpha: share of heads and sequences that keep X instead
    of K and V; None: what the model finds best. element: bytes of K and V elements; io_element: of q and outputs.
    weights_on_drives: weights are read from the drives although memory would hold them. drives: whose are used where no
    card attends. hit: share of K and V that is found in card memory; None: what fits.
    """

    name: str
    place: str
    read_ahead: bool = False
    resident: bool = False
    kernel_rate: float | None = None
    transfers: str = ONE
    spill: int = 16
    split_tokens: bool = False
    alpha: float | None = 0.0
    element: float = 2
    io_element: float = 2
    weights_on_drives: bool = False
    drives: str = OWN_DRIVES
    hit: float | None = None

    def __post_init__(self) -> None:
        for name, value in (("hit", self.hit), ("alpha", self.alpha)):
            if value is not None and not 0.0 <= value <= 1.0:
                raise UserError(f"{name} is {value}; 0 to 1 is allowed")
        if self.element not in (1, 2):
            raise UserError(f"K and V elements of {self.element} bytes; 1 (INT8) or 2 (FP16) is expected")

    def with_(self, **changes: object) -> Policy:
        return replace(self, **changes)  # type: ignore[arg-type]


# This program: q and outputs as FP32, new rows once, pages in units.
NEARKV = Policy("nearkv", NEAR, read_ahead=True, resident=True, spill=UNITS, split_tokens=True, io_element=4)
# HILOS (ASPLOS 2026): 11.9 GB/s kernel, a page of 16 tokens, X-cache; see docs/validation.md for what is assumed.
HILOS = Policy("hilos", NEAR, kernel_rate=11.9e9, transfers=APART, alpha=None)
ANS = Policy("near-storage attention alone", NEAR, kernel_rate=11.9e9, transfers=APART, spill=0)
FLEX_DRAM = Policy("host-dram", HOST_DRAM)
DRAM_GPU = Policy("host-dram-gpu", HOST_DRAM_GPU, read_ahead=True)
FLEX_SSD = Policy("host-ssd", HOST_FILES)
PLAIN_SSD = Policy("plain-ssd", PLAIN, read_ahead=True)
IN_GPU = Policy("gpu", GPU_ONLY)
POLICIES = {p.name: p for p in (NEARKV, HILOS, FLEX_DRAM, DRAM_GPU, FLEX_SSD, PLAIN_SSD, IN_GPU)}


def parse_cards(text: str) -> tuple[int, Card]:
    """`16xsmartssd`, `smartssd` or `4xPATH.toml`."""
    count, name = _counted(text, "cards", "16xsmartssd")
    return count, load(name, Card)


def parse_drives(text: str) -> tuple[int, Drive]:
    """`4xpm9a3`, like cards."""
    count, name = _counted(text, "drives", "4xpm9a3")
    return count, load(name, Drive)


def _counted(text: str, what: str, example: str) -> tuple[int, str]:
    """Count and name of `4xNAME`; 1 where no count is given. UserError for what has no name, or a count outside 1 to
    COUNT_MAX."""
    match = re.fullmatch(r"(?:([0-9]{1,9})x)?(.+)", text)
    if match is None:
        raise UserError(f"{what} are {text!r}; a count and a name such as {example} is expected")
    number = int(match[1] or 1)
    if not 1 <= number <= COUNT_MAX:
        raise UserError(f"{what} are {text!r}; a count from 1 to {COUNT_MAX} is expected")
    return number, match[2]
