# SPDX-License-Identifier: Apache-2.0
"""bin_address: every place that jobs of both parities use is another one, and inside the store."""

import cocotb
from clocked import settle


@cocotb.test()
@cocotb.parametrize(chunks=[2, 3, 4, 8])
async def places_are_distinct(dut, chunks):
    async def place(parity, big, row, word):
        dut.parity.value, dut.big.value, dut.chunks.value = parity, big, chunks
        dut.row.value, dut.word.value = row, word
        await settle()
        return int(dut.addr.value)

    rows = 64 if chunks < 8 else 32
    found = [await place(p, 0, row, w) for p in (0, 1) for row in range(rows) for w in range(2 * chunks)]
    assert len(set(found)) == len(found)
    if chunks == 8:
        found = [await place(1, 1, row, w) for row in range(64) for w in range(16)]
        assert len(set(found)) == 1024
