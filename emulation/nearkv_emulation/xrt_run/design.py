# SPDX-License-Identifier: Apache-2.0
"""The card that is emulated where no xclbin is given: a SmartSSD with one unit of our kernel. A fact sheet, no file."""

from __future__ import annotations

from nearkv_driver.regmap import KERNEL
from nearkv_driver.xclbin import Bank, Clock, Design, Unit, nearkv_kernel
from nearkv_driver.xclbin.tables import ClockType

_PLATFORM = "xilinx_u2_gen3x4_xdma_gc_2_202110_1"
_BASE = 0x40_0000_0000  # where an XDMA platform puts its first DDR bank
_UNIT = 0x180_0000


def default_design(nbytes: int = 4 << 30) -> Design:
    """All three masters on one DDR4 bank of `nbytes`; mode `hw`, as a file for the card would have."""
    unit = Unit(KERNEL, f"{KERNEL}_1", _UNIT, dict.fromkeys(("kv", "ctl", "out"), "bank0"))
    return Design(
        platform=_PLATFORM,
        kernels=(nearkv_kernel(),),
        units=(unit,),
        banks=(Bank("bank0", _BASE, nbytes),),
        clocks=(Clock("DATA_CLK", 300, ClockType.DATA), Clock("KERNEL_CLK", 500, ClockType.KERNEL)),
    )
