# SPDX-License-Identifier: Apache-2.0
"""checksum_fetch: K and V checksums of segments in order, from any entry of a word on; an error keeps its word."""

import cocotb
from clocked import cycles, reset, rng, settle


def entry(at):
    """(CRC of K, of V) at an address / 8."""
    return at * 0x9E3779B1 % 2**32, at * 0x85EBCA77 % 2**32


def word(at):
    return sum((k | v << 32) << 64 * i for i, (k, v) in enumerate(entry(8 * at + i) for i in range(8)))


@cocotb.test()
@cocotb.parametrize(rates=[(1, 1, 1), (0.5, 0.9, 0.9), (0.9, 0.2, 0.9), (0.9, 0.9, 0.2)])
async def checksums_of_segments(dut, rates):
    random = rng()
    await reset(dut, s_valid=0, cmd_ready=0, r_valid=0, k_ready=0, v_ready=0)
    await cycles(dut)
    segments = [
        (random.getrandbits(40) * 8 + random.randrange(8), random.choice([1, 2, 7, 8, 9, 30])) for _ in range(25)
    ]
    bad = {random.choice(segments[10:])[0] // 8}
    waiting, words, k, v, command = list(segments), [], [], [], None
    for _ in range(8000):
        r, kr, vr = (random.random() < rate for rate in rates)
        c = random.random() < 0.5
        dut.s_valid.value, dut.cmd_ready.value = bool(waiting), c
        if waiting:
            dut.s_entry.value, dut.s_pages.value = waiting[0]
        give = bool(words) and r
        dut.r_valid.value, dut.k_ready.value, dut.v_ready.value = give, kr, vr
        if give:
            dut.r_data.value, dut.r_error.value = word(words[0]), words[0] in bad
        await settle()
        if waiting and int(dut.s_ready.value):
            waiting.pop(0)
        if give and int(dut.r_ready.value):
            words.pop(0)
        now = (int(dut.cmd_word.value), int(dut.cmd_count.value)) if int(dut.cmd_valid.value) else None
        assert command is None or now == command, "a command changed before it was accepted"
        command = None if c else now
        if now and c:
            assert not words, "a command came although words are still to be taken"
            words = [now[0] + i for i in range(now[1])]
        if int(dut.k_valid.value) and kr:
            k.append(int(dut.k_crc.value))
        if int(dut.v_valid.value) and vr:
            v.append(int(dut.v_crc.value))
        await cycles(dut)
        pages = [at + i for at, n in segments for i in range(n)]
        if len(k) == len(v) == len(pages):
            break
    assert k == [entry(at)[0] | (at // 8 in bad) << 32 for at in pages]
    assert v == [entry(at)[1] | (at // 8 in bad) << 32 for at in pages]
    assert {int(dut.error_word.value)} == bad


@cocotb.test()
@cocotb.parametrize(waits=["k", "v"])
async def what_one_side_has_to_wait_for_is_not_lost(dut, waits):
    """More pages than the queues hold: while one side takes nothing, the other gets what fits and no more."""
    await reset(dut, s_valid=0, cmd_ready=1, r_valid=0, k_ready=0, v_ready=0)
    await cycles(dut)
    at, pages = 8 * 77 + 3, 1400
    dut.s_entry.value, dut.s_pages.value, dut.s_valid.value = at, pages, 1
    await cycles(dut)
    dut.s_valid.value = 0
    got, next_word, quiet = {"k": [], "v": []}, at // 8, 0
    for _ in range(6000):
        # The side that waits begins when nothing has moved for a while.
        ready = {side: side != waits or quiet > 20 for side in got}
        dut.k_ready.value, dut.v_ready.value = ready["k"], ready["v"]
        dut.r_valid.value, dut.r_data.value, dut.r_error.value = 1, word(next_word), 0
        await settle()
        next_word += int(dut.r_ready.value)
        moved = False
        for side, valid, crc in (("k", dut.k_valid, dut.k_crc), ("v", dut.v_valid, dut.v_crc)):
            if ready[side] and int(valid.value):
                got[side].append(int(crc.value))
                moved = True
        quiet = quiet if moved or quiet > 20 else quiet + 1
        await cycles(dut)
        if len(got["k"]) == len(got["v"]) == pages:
            break
    assert got["k"] == [entry(at + i)[0] for i in range(pages)]
    assert got["v"] == [entry(at + i)[1] for i in range(pages)]
