# SPDX-License-Identifier: Apache-2.0
"""header_check: the model's verdict and offset on every field of a list header."""

import cocotb
from checkers import verdicts_of_headers


@cocotb.test()
async def verdicts(dut):
    await verdicts_of_headers(dut)
