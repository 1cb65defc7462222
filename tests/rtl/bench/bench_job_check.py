# SPDX-License-Identifier: Apache-2.0
"""job_check: the model's verdict and offset on every field of a job, and the sizes that follow from them."""

import cocotb
from checkers import verdicts_of_jobs


@cocotb.test()
async def verdicts(dut):
    await verdicts_of_jobs(dut)
