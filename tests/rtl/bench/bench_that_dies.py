# SPDX-License-Identifier: Apache-2.0
"""A bench whose simulator is killed on the way, so that a test can prove that this is seen."""

import os
import signal

import cocotb
from clocked import cycles, reset


@cocotb.test()
async def passes(dut):
    await reset(dut, s_valid=0, m_ready=0, s_data=0)


@cocotb.test()
async def dies(dut):
    await cycles(dut)
    os.kill(os.getpid(), signal.SIGKILL)
