# SPDX-License-Identifier: Apache-2.0
"""bin_store: three users at random; the update is never refused, the others lose nothing when they wait."""

import cocotb
from clocked import cycles, rng, settle, start, unpack
from shadow import Shadow

PLACES = [0, 1, 511, 512, 1023]
ROWS = [0, 63, 64, 127]


@cocotb.test()
async def users_take_turns(dut):
    random = rng()
    start(dut)
    for name in ("u_read", "u_write", "u_l_write", "s_valid", "s_l_valid", "f_valid"):
        getattr(dut, name).value = 0
    await cycles(dut)
    parts, rows = Shadow(), Shadow()
    want, want_row, refused = [None] * 6, None, 0
    for step in range(2500):
        fill = step < len(PLACES) * 6
        u_read, u_write, u_l = (not fill and random.random() < 0.4 for _ in range(3))
        s, s_l, f = fill or random.random() < 0.5, random.random() < 0.5, random.random() < 0.6
        u_addr, u_place, s_addr, f_addr = (random.choice(PLACES) for _ in range(4))
        u_row, u_l_row, s_l_row, f_row = (random.choice(ROWS) for _ in range(4))
        part = random.randrange(6)
        if fill:
            s_addr, part = PLACES[step // 6], step % 6
        data, s_data, u_l_data, s_l_data = (random.getrandbits(n) for n in (2400, 400, 150, 150))
        dut.u_read.value, dut.u_read_addr.value, dut.u_read_row.value = u_read, u_addr, u_row
        dut.u_write.value, dut.u_write_addr.value, dut.u_data.value = u_write, u_place, data
        dut.u_l_write.value, dut.u_l_row.value, dut.u_l_data.value = u_l, u_l_row, u_l_data
        dut.s_valid.value, dut.s_addr.value, dut.s_data.value = s, s_addr, s_data
        dut.s_bin.value, dut.s_half.value = part // 2, part % 2
        dut.s_l_valid.value, dut.s_l_row.value, dut.s_l_data.value = s_l, s_l_row, s_l_data
        dut.f_valid.value, dut.f_addr.value, dut.f_row.value = f, f_addr, f_row
        await settle()
        s_ready, s_l_ready, f_ready = (int(x.value) for x in (dut.s_ready, dut.s_l_ready, dut.f_ready))
        assert (s_ready, s_l_ready, f_ready) == (not u_write, not u_l, not u_read)
        refused += not s_ready
        if u_read or f:
            addr, row = (u_addr, u_row) if u_read else (f_addr, f_row)
            want, want_row = parts.read([(addr, p) for p in range(6)]), rows.read([row])[0]
        await cycles(dut)
        if not fill and None not in want:
            parts.judge(want, unpack(int(dut.data.value), 400, 6))
        if want_row is not None:
            rows.judge([want_row], [int(dut.l_data.value)])
        if u_write:
            for p in range(6):
                parts.write((u_place, p), data >> 400 * p & (1 << 400) - 1)
        elif s:
            parts.write((s_addr, part), s_data)
        if u_l:
            rows.write(u_l_row, u_l_data)
        elif s_l:
            rows.write(s_l_row, s_l_data)
    assert parts.judged > 2000
    assert rows.judged > 500
    assert refused > 250
