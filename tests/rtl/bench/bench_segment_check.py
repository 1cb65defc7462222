# SPDX-License-Identifier: Apache-2.0
"""segment_check: the model's verdict and offset on segments one after the other, and the first position of new rows."""

import cocotb
from checkers import verdicts_of_segments


@cocotb.test()
async def verdicts(dut):
    await verdicts_of_segments(dut)
