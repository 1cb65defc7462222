# SPDX-License-Identifier: Apache-2.0
"""axi_write: addresses and words in order, each on its own channel; the first failed word is kept until `clear`."""

import cocotb
from clocked import cycles, reset, rng, settle

DEPTH = 64


@cocotb.test()
@cocotb.parametrize(rates=[(1, 1, 1), (0.2, 0.9, 0.9), (0.9, 0.2, 0.9), (0.9, 0.9, 0.1), (0.5, 0.5, 0.5)])
async def words_and_answers(dut, rates):
    random = rng()
    await reset(dut, s_valid=0, clear=0, m_axi_awready=0, m_axi_wready=0, m_axi_bvalid=0, m_axi_bresp=0)
    await cycles(dut)
    sent, addresses, data, answered = [], [], [], 0
    failed, held_aw, held_w, failures, most = None, None, None, 0, 0
    word = random.getrandbits(58), random.getrandbits(512)
    resp = None
    for _ in range(1500):
        push = random.random() < 0.8
        aw, w, b = (random.random() < rate for rate in rates)
        clear = random.random() < 0.02
        if resp is None and answered < min(len(addresses), len(data)) and b:
            resp = random.choice([0, 0, 0, 0, 0, 1, 2, 3])
        dut.s_valid.value, dut.clear.value = push, clear
        dut.s_word.value, dut.s_data.value = word
        dut.m_axi_awready.value, dut.m_axi_wready.value = aw, w
        dut.m_axi_bvalid.value, dut.m_axi_bresp.value = resp is not None, resp or 0
        await settle()
        assert int(dut.idle.value) == (answered == len(sent))
        assert (int(dut.failed.value), int(dut.failed_word.value) if failed is not None else None) == (
            failed is not None,
            failed,
        )
        now_aw = int(dut.m_axi_awaddr.value) if int(dut.m_axi_awvalid.value) else None
        now_w = int(dut.m_axi_wdata.value) if int(dut.m_axi_wvalid.value) else None
        assert held_aw is None or now_aw == held_aw, "AW changed before it was accepted"
        assert held_w is None or now_w == held_w, "W changed before it was accepted"
        held_aw, held_w = (None if aw else now_aw), (None if w else now_w)
        if now_aw is not None and aw:
            addresses.append(now_aw)
        if now_w is not None and w:
            data.append(now_w)
        if resp is not None and int(dut.m_axi_bready.value):
            # A clear in the same cycle comes first: the failure is of a word that is still to be told of.
            if clear:
                failed = None
            if resp & 2 and failed is None:
                failed = sent[answered][0]
                failures += 1
            answered += 1
            resp = None
        elif clear:
            failed = None
        if push and int(dut.s_ready.value):
            sent.append(word)
            word = random.getrandbits(58), random.getrandbits(512)
        most = max(most, len(sent) - answered)
        await cycles(dut)
    assert addresses == [a << 6 for a, _ in sent[: len(addresses)]]
    assert data == [d for _, d in sent[: len(data)]]
    assert len(sent) - len(addresses) <= 1
    assert failures > 2
    assert most <= DEPTH + 1
    if rates == (0.9, 0.9, 0.1):
        assert most >= DEPTH - 2, "the writer waits for answers that it need not wait for"
