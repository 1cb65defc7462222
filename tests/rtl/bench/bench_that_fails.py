# SPDX-License-Identifier: Apache-2.0
"""A bench that fails on purpose, so that a test can prove that a failure is seen."""

import cocotb
from clocked import cycles, reset


@cocotb.test()
async def never_holds(dut):
    await reset(dut, s_valid=0, m_ready=0, s_data=0)
    await cycles(dut)
    assert int(dut.m_valid.value) == 1
