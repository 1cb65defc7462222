# SPDX-License-Identifier: Apache-2.0
"""What the URL of a `hw_emu` card asks for, checked: memory, clock, disturbance, waveform. Builds and opens nothing.

`hw_emu:NAME?memory=ddr4-2400,cl:18&clock=300M&latency=40&stall=0&reorder=0&fill=3G&seed=1&wave=FILE`, and `dram`,
`base`, `banks`, `drive` as for `sw_emu`. `timeout_cycles=N` replaces the driver's own limit for a list.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from pathlib import Path

from nearkv_driver.registry import CardUrl
from nearkv_driver.transport import CardInfo

from nearkv_emulation import card_memory
from nearkv_emulation.card_memory import banks_of, p2p_of
from nearkv_emulation.drive import drive_of
from nearkv_emulation.memory_model import CLOCK_MHZ, FILL_GB_S, Ddr4, Memory, MemoryTiming

_OPTIONS = (
    *card_memory.OPTIONS,
    *("drive", "memory", "clock", "latency", "stall", "reorder", "fill", "seed", "timeout_cycles", "wave"),
)
_MEMORIES = ("ideal", "ddr4-2400")
_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9}
_CLOCK_MHZ = (10, 1000)
_LATENCY = (1, 10_000)
# At 100 a channel would never move.
_STALL_MAX, _REORDER_MAX = 90, 100
_SEED_MAX = 999_999_999
_CYCLES = (1_000, 999_999_999)


@dataclass(frozen=True)
class HwEmuOptions:
    """`timing` holds for each of the three masters; `seed` decides stalls, reordering and what registers start with."""

    info: CardInfo
    memory: Memory
    timing: MemoryTiming
    seed: int
    wave: Path | None


def options_of(url: CardUrl) -> HwEmuOptions:
    """Raises ValueError for an option that is unknown or out of range."""
    url.only(_OPTIONS)
    drive_of(url)
    kind, ddr4 = _memory(url)
    clock_mhz = _clock_mhz(url)
    p2p, p2p_reason = p2p_of(url)
    info = CardInfo(
        url=url.text,
        kind="hw_emu",
        platform=f"emulated, RTL in Verilator at {clock_mhz} MHz, memory {kind}",
        banks=banks_of(url),
        masters=dict(card_memory.MASTERS),
        p2p=p2p,
        p2p_reason=p2p_reason,
        simulated=True,
        clock_hz=clock_mhz * 10**6,
        timeout_cycles=_count(url, "timeout_cycles", 0, *_CYCLES),
    )
    timing = MemoryTiming(
        latency=_count(url, "latency", MemoryTiming.latency, *_LATENCY),
        stall=_count(url, "stall", 0, 0, _STALL_MAX),
        reorder=_count(url, "reorder", 0, 0, _REORDER_MAX),
    )
    return HwEmuOptions(
        info=info,
        memory=Memory(ddr4, clock_mhz, _rate(url, "fill", f"{FILL_GB_S}G") / 1e9),
        timing=timing,
        seed=_count(url, "seed", 1, 0, _SEED_MAX),
        wave=_wave(url),
    )


def _count(url: CardUrl, name: str, default: int, least: int, most: int) -> int:
    return url.count(name, least, most) if name in url.options else default


def _memory(url: CardUrl) -> tuple[str, Ddr4 | None]:
    """`ideal`, or `ddr4-2400` and figures of it that differ: `ddr4-2400,cl:18,rcd:18`."""
    text = url.option("memory", _MEMORIES[0])
    kind, *figures = text.split(",")
    where = f"card URL {url.text!r}: memory={text}"
    if kind not in _MEMORIES:
        raise ValueError(f"{where}; known are {', '.join(_MEMORIES)}")
    if kind == "ideal":
        if figures:
            raise ValueError(f"{where}; an ideal memory has no figures (latency={MemoryTiming.latency} is an option)")
        return text, None
    names, given = [field.name for field in fields(Ddr4)], dict[str, int]()
    for part in figures:
        match = re.fullmatch(r"([a-z_]+):([0-9]{1,9})", part)
        if match is None or match[1] not in names or match[1] in given:
            raise ValueError(f"{where}; {part!r} is not of the form figure:number, each once, of {', '.join(names)}")
        given[match[1]] = int(match[2])
    try:
        return text, Ddr4(**given)
    except ValueError as error:
        raise ValueError(f"{where}; {error}") from None


def _clock_mhz(url: CardUrl) -> int:
    text, (least, most) = url.option("clock", f"{CLOCK_MHZ}M"), _CLOCK_MHZ
    match = re.fullmatch(r"([0-9]{1,12})([KMG]?)", text)
    hz = int(match[1]) * _UNITS[match[2]] if match else 0
    if hz % 10**6 or not least <= hz // 10**6 <= most:
        raise ValueError(f"card URL {url.text!r}: clock={text}; whole megahertz from {least}M to {most}M are expected")
    return hz // 10**6


def _rate(url: CardUrl, name: str, default: str) -> float:
    """Bytes per second; K, M and G are powers of 1000."""
    text = url.option(name, default)
    match = re.fullmatch(r"([0-9]{1,12}(?:\.[0-9]{1,9})?)([KMG]?)", text)
    rate = float(match[1]) * _UNITS[match[2]] if match else 0.0
    if not 1e6 <= rate <= 1e12:
        raise ValueError(f"card URL {url.text!r}: {name}={text}; bytes per second from 1M to 1000G are expected")
    return rate


def _wave(url: CardUrl) -> Path | None:
    """A regular file, there or not, that can be made: the writer removes what is in its way."""
    text = url.option("wave", "")
    if not text:
        return None
    problem = ""
    try:
        path = Path(text).expanduser()
        if path.exists() and not path.is_file():
            problem = "it is no regular file"
        elif not path.parent.is_dir():
            problem = f"there is no folder {path.parent}"
    except RuntimeError:
        problem = "there is no such user"
    except OSError as error:
        problem = error.strerror or str(error)
    if problem:
        raise ValueError(f"card URL {url.text!r}: wave={text}; {problem}")
    return path
