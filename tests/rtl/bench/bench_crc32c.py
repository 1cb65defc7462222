# SPDX-License-Identifier: Apache-2.0
"""crc32c: two interleaved streams of pages give the checksums of google_crc32c."""

import cocotb
import google_crc32c
from clocked import cycles, rng, start
from cocotb.triggers import Timer


@cocotb.test()
async def two_streams(dut):
    random = rng()
    start(dut)
    dut.s_valid.value = dut.late_valid.value = 0
    await cycles(dut)
    pages = {stream: random.randbytes(4096) for stream in (0, 1)}
    at = {0: 0, 1: 0}
    got = {}
    previous = None
    while previous is not None or min(at.values()) < 64:
        choices = [stream for stream in at if at[stream] < 64]
        now = random.choice(choices) if choices and random.random() < 0.8 else None
        dut.s_valid.value = now is not None
        if now is not None:
            dut.s_data.value = int.from_bytes(pages[now][64 * at[now] :][:64], "little")
        dut.late_valid.value = previous is not None
        if previous is not None:
            stream, word = previous
            dut.late_stream.value, dut.late_first.value = stream, word == 0
        await Timer(1, unit="ns")
        if previous is not None and previous[1] == 63:
            got[previous[0]] = int(dut.crc.value)
        await cycles(dut)
        previous = None
        if now is not None:
            previous = now, at[now]
            at[now] += 1
    assert got == {stream: google_crc32c.value(page) for stream, page in pages.items()}
