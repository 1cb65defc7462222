# SPDX-License-Identifier: Apache-2.0
"""axi_read_arbiter: no request is lost, doubled or changed, each has its reader's id, the lowest goes first."""

import cocotb
from clocked import cycles, pack, reset, rng, settle

READERS = 5


@cocotb.test()
@cocotb.parametrize(rate=[1.0, 0.5, 0.2])
async def requests_arrive_with_their_id(dut, rate):
    random = rng()
    await reset(dut, s_ar_valid=0, m_axi_arready=0, m_axi_rvalid=0, m_axi_rid=0)
    await cycles(dut)
    wanted = [[] for _ in range(READERS)]
    asked = [[] for _ in range(READERS)]
    granted = [[] for _ in range(READERS)]
    held = None
    for _ in range(1200):
        for reader in wanted:
            if not reader and random.random() < 0.3:
                reader.append((random.getrandbits(58) << 6, random.randrange(64)))
        heads = [reader[0] if reader else (0, 0) for reader in wanted]
        valid = sum(1 << i for i, reader in enumerate(wanted) if reader)
        ready = random.random() < rate
        dut.s_ar_addr.value, dut.s_ar_len.value = pack([h[0] for h in heads], 64), pack([h[1] for h in heads], 8)
        dut.s_ar_valid.value, dut.m_axi_arready.value = valid, ready
        await settle()
        accepted = int(dut.s_ar_ready.value) & valid
        assert accepted in (0, valid & -valid), "not the lowest request, or more than one"
        for i, reader in enumerate(wanted):
            if accepted >> i & 1:
                asked[i].append(reader.pop(0))
        out = None
        if int(dut.m_axi_arvalid.value):
            out = (int(dut.m_axi_arid.value), int(dut.m_axi_araddr.value), int(dut.m_axi_arlen.value))
        assert held is None or out == held, "AR changed before it was accepted"
        held = out if out and not ready else None
        if out and ready:
            granted[out[0]].append(out[1:])
        await cycles(dut)
    dut.s_ar_valid.value, dut.m_axi_arready.value = 0, 1
    await settle()
    if int(dut.m_axi_arvalid.value):
        granted[int(dut.m_axi_arid.value)].append((int(dut.m_axi_araddr.value), int(dut.m_axi_arlen.value)))
    assert granted == asked
    assert all(len(reader) > 3 for reader in granted[:3])


@cocotb.test()
async def answers_go_to_the_reader_of_their_id(dut):
    await reset(dut, s_ar_valid=0, m_axi_arready=0, m_axi_rvalid=0, m_axi_rid=0)
    for valid in (0, 1):
        for rid in range(8):
            dut.m_axi_rvalid.value, dut.m_axi_rid.value = valid, rid
            await settle()
            assert int(dut.m_r_valid.value) == (valid << rid if rid < READERS else 0)


@cocotb.test()
async def a_reset_takes_the_request_back_at_once(dut):
    await reset(dut, s_ar_valid=1, m_axi_arready=0, m_axi_rvalid=0, m_axi_rid=0, s_ar_addr=64, s_ar_len=1)
    await cycles(dut, 2)
    assert int(dut.m_axi_arvalid.value)
    dut.rst.value, dut.s_ar_valid.value = 1, 0
    await settle()
    assert not int(dut.m_axi_arvalid.value)
    await cycles(dut)
    dut.rst.value = 0
    await cycles(dut, 3)
    assert not int(dut.m_axi_arvalid.value)
