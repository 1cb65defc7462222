# SPDX-License-Identifier: Apache-2.0
"""Judges what the tools made: is it the kernel of this contract as it was to be linked, and does it meet its timing?"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from nearkv_driver.bitstream.link_check import Link
from nearkv_driver.bitstream.reports import Timing
from nearkv_driver.bitstream.request import Target
from nearkv_driver.xclbin.container import Mode
from nearkv_driver.xclbin.design import Design
from nearkv_driver.xclbin.kernel import Kernel
from nearkv_driver.xclbin.tables import ClockType


class Closure(StrEnum):
    """How timing ended."""

    MET = "met"
    LOWERED = "lowered"  # the tools took a slower kernel clock by themselves
    FAILED = "failed"
    UNKNOWN = "unknown"
    NOT_APPLICABLE = "not applicable"  # emulation has no timing


@dataclass(frozen=True)
class Verdict:
    """Whether the timing is met, why not, and the MHz of the data clock in the xclbin; None where it names none."""

    closure: Closure
    reason: str  # empty when it is met
    achieved_mhz: int | None


def judge_timing(
    target: Target, requested_mhz: int, timing: Timing | None, design: Design, trouble: str = ""
) -> Verdict:
    """From the routed report and the clock that the xclbin will set; `trouble` is why there is no report."""
    achieved = next((clock.mhz for clock in design.clocks if clock.type == ClockType.DATA), None)
    if target is Target.HW_EMU:
        return Verdict(Closure.NOT_APPLICABLE, "", achieved)
    if timing is None:
        text = trouble or "no timing report was found"
        return Verdict(Closure.UNKNOWN, f"{text}, so nothing says that it works at speed", achieved)
    if timing.wns_ns is None:
        return Verdict(Closure.UNKNOWN, f"{timing.file} has no worst slack", achieved)
    if achieved is None:
        return Verdict(Closure.UNKNOWN, "the xclbin names no kernel clock", achieved)
    if not timing.others_met:
        parts = (("hold", timing.whs_ns), ("pulse width", timing.wpws_ns))
        text = ", ".join(f"{name} slack {slack} ns" for name, slack in parts if slack is not None and slack < 0)
        return Verdict(Closure.FAILED, f"timing failed: {text}, which no slower clock repairs", achieved)
    if achieved < requested_mhz:
        text = f"the tools lowered the kernel clock from {requested_mhz} to {achieved} MHz (slack {timing.wns_ns} ns)"
        return Verdict(Closure.LOWERED, text, achieved)
    if not timing.setup_met:
        where = f" at {timing.clock}" if timing.clock else ""
        text = f"timing failed: slack {timing.wns_ns} ns, {timing.failing_endpoints} endpoints{where}"
        return Verdict(Closure.FAILED, text, achieved)
    return Verdict(Closure.MET, "", achieved)


def contract_breaks(design: Design, kernel: Kernel, link: Link, target: Target) -> tuple[str, ...]:
    """Sentences on what is not as the register map and the configuration say; () when all is."""
    found = []
    emulated = design.mode in (Mode.HW_EMU, Mode.SW_EMU)
    if emulated != (target is Target.HW_EMU):
        found.append(f"the xclbin is for {'emulation' if emulated else 'a card'}, the target was {target}")
    linked = next((k for k in design.kernels if k.name == kernel.name), None)
    if linked is None:
        return (*found, f"it has no kernel {kernel.name}")
    if linked.protocol != kernel.protocol:
        found.append(f"its kernel is {linked.protocol.name.lower()}, not {kernel.protocol.name.lower()}")
    offsets = {a.name: hex(a.offset) for a in linked.arguments}
    wanted = {a.name: hex(a.offset) for a in kernel.arguments}
    if offsets != wanted:
        found.append(f"its arguments are {_pairs(offsets)}, those of the register map {_pairs(wanted)}")
    names = sorted(unit.name for unit in design.units)
    if names != sorted(unit.name for unit in link.units):
        found.append(f"its compute units are {', '.join(names)}, not {', '.join(u.name for u in link.units)}")
    for unit in design.units:
        if len(set(unit.banks.values())) != 1 or sorted(unit.banks) != sorted(wanted):
            found.append(f"{unit.name} reaches {_pairs(dict(unit.banks))}; all its arguments must reach one memory")
    return tuple(found)


def _pairs(values: dict[str, str]) -> str:
    return ", ".join(f"{name} {value}" for name, value in values.items()) or "none"
