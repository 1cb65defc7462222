# SPDX-License-Identifier: Apache-2.0
"""fifo: order, no loss, no duplicate under random pushes and pulls; `s_ready` leaves SPARE entries free."""

import cocotb
from clocked import cycles, reset, rng


@cocotb.test()
async def keeps_order_and_count(dut):
    random = rng()
    await reset(dut, s_valid=0, m_ready=0, s_data=0)
    sent, taken, full = [], [], 0
    for i in range(3000):
        rate = 0.9 if i // 300 % 2 else 0.4
        push, pull = random.random() < rate, random.random() < 1.2 - rate
        dut.s_valid.value, dut.m_ready.value = push, pull
        dut.s_data.value = word = random.getrandbits(32)
        accepted = push and int(dut.s_ready.value)
        dut.s_valid.value = accepted
        if accepted:
            sent.append(word)
        full += not int(dut.s_ready.value)
        if pull and int(dut.m_valid.value):
            taken.append(int(dut.m_data.value))
        await cycles(dut)
    assert taken == sent[: len(taken)]
    assert 0 <= len(sent) - len(taken) <= 17
    assert full > 0


@cocotb.test()
async def empties_on_reset(dut):
    await reset(dut, s_valid=1, m_ready=0, s_data=7)
    await cycles(dut, 5)
    dut.rst.value, dut.s_valid.value = 1, 0
    await cycles(dut)
    assert int(dut.m_valid.value) == 0
