# SPDX-License-Identifier: Apache-2.0
"""axi_read_stream: every word once and in order under stalls, bursts inside 4 KiB, never more than DEPTH words owed."""

import cocotb
from clocked import cycles, reset, rng, settle

DEPTH, MAX_BURST = 64, 64


def content(word):
    """(data, error) of a word of memory."""
    return (word * 0x9E3779B97F4A7C15 % 2**512, word % 37 == 0)


class Harness:
    """Memory with random delays on one side, a taker with random pauses on the other."""

    def __init__(self, dut, random):
        self.dut, self.random = dut, random
        self.bursts, self.got, self.commands = [], [], []
        self.held = None
        self.owed = 0

    async def step(self, rates, flush=False):
        ar, r, m = (self.random.random() < rate for rate in rates)
        dut = self.dut
        dut.flush.value, dut.m_ar_ready.value, dut.m_ready.value = flush, ar, m
        give = bool(self.bursts) and r
        dut.s_r_valid.value = give
        if give:
            dut.s_r_data.value, dut.s_r_error.value = content(self.bursts[0][0])
        command = self.commands[0] if self.commands else None
        dut.s_cmd_valid.value = command is not None
        if command:
            dut.s_cmd_word.value, dut.s_cmd_count.value = command
        await settle()
        if command and int(dut.s_cmd_ready.value):
            self.commands.pop(0)
        if give:
            self.bursts[0] = self.bursts[0][0] + 1, self.bursts[0][1] - 1
            if not self.bursts[0][1]:
                self.bursts.pop(0)
        if int(dut.m_valid.value) and m:
            self.got.append((int(dut.m_data.value), bool(int(dut.m_error.value))))
            self.owed -= 1
        request = (int(dut.m_ar_addr.value), int(dut.m_ar_len.value)) if int(dut.m_ar_valid.value) else None
        assert self.held is None or request == self.held, "AR changed before it was accepted"
        self.held = request if request and not ar else None
        if request and ar:
            address, words = request[0], request[1] + 1
            assert address % 64 == 0
            assert words <= MAX_BURST
            assert address // 4096 == (address + 64 * words - 1) // 4096, f"{address:#x} + {words} words cross 4 KiB"
            self.bursts.append((address // 64, words))
            self.owed += words
            assert flush or self.owed <= DEPTH + 1, "more words are owed than the FIFO can take"
        await cycles(dut)


async def fresh(dut):
    await reset(dut, flush=0, s_cmd_valid=0, m_ready=0, m_ar_ready=0, s_r_valid=0)
    await cycles(dut)


def commands(random, n):
    """Starts near page edges, lengths of none, one, odd, whole pages."""
    return [
        (random.getrandbits(40) * 64 + random.choice([0, 1, 31, 62, 63]), random.choice([0, 1, 2, 3, 63, 64, 65, 130]))
        for _ in range(n)
    ]


def words(listed):
    return [content(word + i) for word, count in listed for i in range(count)]


@cocotb.test()
@cocotb.parametrize(rates=[(1, 1, 1), (0.3, 0.9, 0.9), (0.9, 0.3, 0.9), (0.9, 0.9, 0.3), (0.5, 0.5, 0.5)])
async def every_word_once_and_in_order(dut, rates):
    random = rng()
    await fresh(dut)
    harness = Harness(dut, random)
    listed = commands(random, 14)
    harness.commands = list(listed)
    for _ in range(20_000):
        await harness.step(rates)
        if not harness.commands and len(harness.got) == len(words(listed)):
            break
    assert harness.got == words(listed)
    for _ in range(5):
        await harness.step((1, 1, 1))
    assert harness.got == words(listed), "words came that nobody asked for"
    assert int(dut.idle.value)


@cocotb.test()
async def a_flush_takes_what_is_owed_and_gives_none_of_it(dut):
    random = rng()
    await fresh(dut)
    for _ in range(12):
        harness = Harness(dut, random)
        harness.commands = commands(random, 4)
        for _ in range(random.randint(1, 120)):
            await harness.step((0.6, 0.6, 0.4))
        before = len(harness.got)
        harness.commands = []
        for i in range(2000):
            await harness.step((0.6, 0.6, 0.4), flush=True)
            if i > 2 and int(dut.idle.value):
                break
        assert not harness.bursts, "idle although words are owed"
        assert len(harness.got) == before
        after = Harness(dut, random)
        after.commands = [(63, 66)]
        for _ in range(400):
            await after.step((0.7, 0.7, 0.7))
        assert after.got == words([(63, 66)])


@cocotb.test()
async def a_reset_of_one_cycle_takes_the_request_back_at_once(dut):
    await fresh(dut)
    harness = Harness(dut, rng())
    harness.commands = [(5, 9)]
    for _ in range(6):
        await harness.step((0, 0, 0))
    assert int(dut.m_ar_valid.value)
    dut.rst.value, dut.s_cmd_valid.value = 1, 0
    await settle()
    assert not int(dut.m_ar_valid.value)
    await cycles(dut)
    dut.rst.value = 0
    after = Harness(dut, rng())
    after.commands = [(60, 10)]
    for _ in range(100):
        await after.step((1, 1, 1))
    assert after.got == words([(60, 10)])
