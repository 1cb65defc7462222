# SPDX-License-Identifier: Apache-2.0
"""How a result is judged: timing, the clock that was reached, and whether it is the kernel of the contract."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from nearkv_driver.bitstream.link_check import Link, Unit
from nearkv_driver.bitstream.reports import Timing
from nearkv_driver.bitstream.request import Target
from nearkv_driver.bitstream.verdict import Closure, contract_breaks, judge_timing
from nearkv_driver.xclbin import Clock, Design, Mode, nearkv_kernel
from nearkv_driver.xclbin.design_file import read_design
from nearkv_driver.xclbin.tables import ClockType, Protocol

DESIGN = read_design(Path(__file__).parents[1] / "xclbin" / "design.toml")
GOOD = Timing(0.02, 0.0, 0, 0.01, 0.0, "clk", Path("t.rpt"))
LINK = Link((Unit("nearkv_attend_1", "bank0", None),), 300)


def with_clock(mhz: int) -> Design:
    return replace(DESIGN, clocks=(Clock("KERNEL_CLK", 500, ClockType.KERNEL), Clock("DATA_CLK", mhz)))


@pytest.mark.parametrize(
    ("timing", "mhz", "closure", "text"),
    [
        (GOOD, 300, Closure.MET, ""),
        (replace(GOOD, wns_ns=0.0), 300, Closure.MET, ""),
        (GOOD, 301, Closure.MET, ""),
        (GOOD, 299, Closure.LOWERED, "from 300 to 299 MHz"),
        (replace(GOOD, wns_ns=-0.3), 271, Closure.LOWERED, "from 300 to 271 MHz"),
        (replace(GOOD, wns_ns=-0.001, failing_endpoints=3), 300, Closure.FAILED, "slack -0.001 ns, 3 endpoints at clk"),
        (replace(GOOD, wns_ns=-0.3, whs_ns=-0.01), 271, Closure.FAILED, "hold slack -0.01 ns, which no slower clock"),
        (replace(GOOD, wpws_ns=-0.2), 300, Closure.FAILED, "pulse width slack -0.2 ns"),
        (replace(GOOD, wns_ns=None), 300, Closure.UNKNOWN, "t.rpt has no worst slack"),
        (None, 300, Closure.UNKNOWN, "no timing report was found"),
    ],
)
def test_timing(timing: Timing | None, mhz: int, closure: Closure, text: str) -> None:
    verdict = judge_timing(Target.HW, 300, timing, with_clock(mhz))
    assert (verdict.closure, verdict.achieved_mhz) == (closure, mhz)
    assert text in verdict.reason
    assert bool(verdict.reason) == (closure is not Closure.MET)


def test_an_xclbin_without_clocks_proves_nothing() -> None:
    verdict = judge_timing(Target.HW, 300, GOOD, replace(DESIGN, clocks=()))
    assert (verdict.closure, verdict.reason) == (Closure.UNKNOWN, "the xclbin names no kernel clock")


def test_emulation_has_no_timing() -> None:
    assert judge_timing(Target.HW_EMU, 300, None, DESIGN).closure is Closure.NOT_APPLICABLE


def test_the_design_of_the_contract_breaks_nothing() -> None:
    assert contract_breaks(DESIGN, nearkv_kernel(), LINK, Target.HW) == ()


KERNEL = nearkv_kernel()
SWAPPED = replace(KERNEL, arguments=(replace(KERNEL.arguments[0], offset=0x18), *KERNEL.arguments[1:]))


@pytest.mark.parametrize(
    ("design", "text"),
    [
        (replace(DESIGN, mode=Mode.HW_EMU), "for emulation, the target was hw"),
        (replace(DESIGN, kernels=()), "no kernel nearkv_attend"),
        (replace(DESIGN, kernels=(replace(KERNEL, protocol=Protocol.AP_CTRL_HS),)), "ap_ctrl_hs, not ap_ctrl_chain"),
        (replace(DESIGN, kernels=(SWAPPED,)), "kv 0x18, ctl 0x1c, out 0x28, those of the register map kv 0x10"),
        (replace(DESIGN, units=(replace(DESIGN.units[0], name="x"),)), "units are x, not nearkv_attend_1"),
        (
            replace(DESIGN, units=(replace(DESIGN.units[0], banks={"kv": "a", "ctl": "a", "out": "b"}),)),
            "reaches kv a, ctl a, out b; all its arguments must reach one memory",
        ),
        (replace(DESIGN, units=(replace(DESIGN.units[0], banks={"kv": "a", "ctl": "a"}),)), "must reach one memory"),
        (replace(DESIGN, units=(replace(DESIGN.units[0], banks={}),)), "reaches none"),
    ],
)
def test_what_breaks_the_contract_is_said(design: Design, text: str) -> None:
    (found,) = contract_breaks(design, nearkv_kernel(), LINK, Target.HW)
    assert text in found
