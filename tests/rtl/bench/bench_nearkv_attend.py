# SPDX-License-Identifier: Apache-2.0
"""nearkv_attend under cocotb: lists against the NumPy model, byte for byte, through stalls, errors and resets.

Which tests run on which simulator is decided by `tests/rtl/test_top_cocotb.py`.
"""

import cocotb
import numpy as np
from board import WORD, Board
from cocotb.triggers import ClockCycles
from cocotbext.axi import AxiResp
from nearkv_driver import regmap as rm
from nearkv_emulation.model import ModelKernel

from tests.support.jobs import Job, Segment, build, comparable
from tests.support.random_jobs import half, random_image, random_q
from tests.support.rtl_compare import blank_failed_writes


def small(seed, tokens=40, rows=3, head_size=64, jobs=1, **fields):
    """Jobs over pages that are checked, new rows and a state: a bit of everything."""
    rng = np.random.default_rng(seed)
    listed = []
    for _ in range(jobs):
        segments = [Segment(0, half(rng, tokens, head_size), half(rng, tokens, head_size), True, 4096 - 192)]
        new = Segment(tokens, half(rng, 2, head_size), half(rng, 2, head_size))
        options = {"new": new, "tail": True, "state_out": True} | fields
        listed.append(Job(random_q(rng, rows, head_size), [(0, tokens + 2)], 0.125, segments, **options))
    return build(listed)


def same(image, memory, faulty=None):
    """Every byte, the poison between outputs among them, is the model's; `faulty`: the image as the model sees it."""
    want, got = (comparable(image, m) for m in ((faulty or image).run(ModelKernel()), memory))
    for m in (want, got):
        blank_failed_writes(image, m)
    differ = np.flatnonzero(want != got)
    assert not len(differ), f"{len(differ)} bytes differ, the first at {image.base + int(differ[0]):#x}"


@cocotb.test()
@cocotb.parametrize(first=[0, 4])
async def lists_leave_the_bytes_of_the_model(dut, first):
    board = await Board.on(dut)
    for seed in range(first, first + 4):
        image = random_image(np.random.default_rng(1000 + seed), 60)
        same(image, await board.run(image))
    assert any(address % 4096 + words * WORD == 4096 for address, words in board.reads["kv"]), "no burst ends a page"


@cocotb.test()
@cocotb.parametrize(seed=list(range(6)))
async def every_channel_stalls_and_ids_overtake(dut, seed):
    """READY and VALID of all thirteen channels pause at random; answers of different ids change places."""
    board = await Board.on(dut, seed, stall=(10, 40, 70)[seed % 3], reorder=True)
    image = random_image(np.random.default_rng(2000 + seed), 40)
    same(image, await board.run(image, limit=400_000))


def words_of(image, board, master):
    """Words that a master moved, in order."""
    if master == "out":
        return [address for address, _ in board.writes]
    return [address + WORD * i for address, words in board.reads[master] for i in range(words)]


@cocotb.test()
@cocotb.parametrize(master=["kv", "ctl", "out"], resp=[AxiResp.SLVERR, AxiResp.DECERR])
async def an_error_reply_ends_the_list_with_its_place(dut, master, resp):
    """The first word, the last, some in between: status, address and neighbours are the model's; then all is well."""
    board = await Board.on(dut, 3)
    image = small(5, tokens=20, rows=2, jobs=2)
    await board.run(image)
    words = sorted(set(words_of(image, board, master)))
    chosen = {words[0], words[-1], *board.random.sample(words, 4)}
    reported = set()
    for word in sorted(chosen):
        index = {"kv": rm.MASTER_KV, "ctl": rm.MASTER_CTL, "out": rm.MASTER_OUT}[master]
        at = image.at(word)
        broken = type(image)(**{**vars(image), "holes": ((index, at, at + WORD),)})
        memory = await board.run(image, {master: {word: resp}})
        same(image, memory, broken)
        for status in image.statuses(memory):
            if status["code"] in (rm.Status.AXI_READ, rm.Status.AXI_WRITE):
                assert status["detail"] == index
                reported.add(status["address"])
    assert reported <= chosen
    assert reported, "no status told of an error"
    same(image, await board.run(image))


@cocotb.test()
@cocotb.parametrize(clocks=[1, 20])
async def reset_at_any_cycle(dut, clocks):
    """Held for 1 and 20 clocks; the pointers are written in the first cycle after it."""
    board = await Board.on(dut, clocks, stall=20)
    image = small(7, tokens=20, rows=2)
    for _ in range(6):
        board.map(image)
        await board.start(image)
        await ClockCycles(dut.ap_clk, board.random.randint(1, 700))
        await board.reset(clocks)
        same(image, await board.run(image))


@cocotb.test()
async def a_start_while_busy_is_held_once(dut):
    board = await Board.on(dut)
    image = small(8, tokens=20, rows=1)
    first = board.map(image)
    await board.start(image)
    while not await board.host.read_dword(rm.ADDR_CTRL) & rm.CTRL_READY:
        pass
    for _ in range(2):
        await board.host.write_dword(rm.ADDR_CTRL, rm.CTRL_START)
    await board.interrupted()
    same(image, first)
    # DONE stays, and the held list waits for CONTINUE.
    await ClockCycles(dut.ap_clk, 300)
    assert await board.host.read_dword(rm.ADDR_CTRL) == rm.CTRL_DONE | rm.CTRL_START
    second = board.map(image)
    await board.host.write_dword(rm.ADDR_IP_ISR, rm.IP_IER_DONE)
    await board.host.write_dword(rm.ADDR_CTRL, rm.CTRL_CONTINUE)
    await board.interrupted()
    same(image, second)
    third = board.map(image)
    await board.finish()
    await ClockCycles(dut.ap_clk, 1500)
    assert (third == image.memory).all(), "a third list ran"
    assert await board.host.read_dword(rm.ADDR_CTRL) & ~rm.CTRL_READY == rm.CTRL_IDLE


@cocotb.test()
async def interrupt_enables_and_status(dut):
    board = await Board.on(dut)
    host, image = board.host, small(9, tokens=16, rows=1)
    # The status toggles where a one is written, with and without a list; the line follows the global enable.
    for value in (3, 1, 2):
        before = await host.read_dword(rm.ADDR_IP_ISR)
        await host.write_dword(rm.ADDR_IP_ISR, value)
        assert await host.read_dword(rm.ADDR_IP_ISR) == before ^ value
    assert await host.read_dword(rm.ADDR_IP_ISR) == 0
    for gier, ier in ((0, 3), (1, 0), (1, 2), (1, 1)):
        memory = board.map(image)
        await board.pointers(image)
        await host.write_dword(rm.ADDR_GIER, gier)
        await host.write_dword(rm.ADDR_IP_IER, ier)
        await host.write_dword(rm.ADDR_CTRL, rm.CTRL_START)
        while not await host.read_dword(rm.ADDR_CTRL) & rm.CTRL_DONE:
            pass
        same(image, memory)
        assert await host.read_dword(rm.ADDR_IP_ISR) == ier
        assert int(dut.interrupt.value) == (gier and ier != 0)
        await host.write_dword(rm.ADDR_IP_ISR, ier)
        await host.write_dword(rm.ADDR_CTRL, rm.CTRL_CONTINUE)
        await ClockCycles(dut.ap_clk, 3)
        assert not int(dut.interrupt.value)


@cocotb.test()
async def byte_strobes_and_orders_of_address_and_data(dut):
    board = await Board.on(dut)
    host, expected = board.host, bytearray(8)
    for first in ("aw", "w", "both"):
        for at in range(8):
            channels = {"aw": host.write_if.aw_channel, "w": host.write_if.w_channel}
            for name, channel in channels.items():
                channel.pause = first not in (name, "both")
            task = cocotb.start_soon(host.write(rm.ADDR_KV + at, bytes([value := board.random.getrandbits(8)])))
            await ClockCycles(dut.ap_clk, board.random.randint(20, 29))
            assert task.done() == (first == "both"), "a write was answered without its address or its data"
            for channel in channels.values():
                channel.pause = False
            await task
            expected[at] = value
            assert (await host.read(rm.ADDR_KV, 8)).data == bytes(expected)


class SecondTime(dict):
    """Errors that the first read of a word does not see."""

    def __init__(self, errors):
        super().__init__(errors)
        self.read = set()

    def __contains__(self, word):
        seen = word in self.read
        self.read.add(word)
        return seen and super().__contains__(word)


def held_after(board, word, clocks):
    """Pauses of a channel for so many clocks from the cycle on in which a word was written."""
    left = None
    while True:
        if left is None and board.writes and board.writes[-1][0] == word:
            left = clocks
        yield bool(left)
        left = left and left - 1


@cocotb.test()
@cocotb.parametrize(clocks=[0, 800])
async def a_descriptor_that_can_be_read_only_once(dut, clocks):
    """Segments behind the sixteenth are read twice; the second read of one fails while the job before is written, also
    when its status is answered so late that the job behind is ready to be walked. The failing job gets the fault."""
    rng = np.random.default_rng(13)

    def job(tokens, each):
        pieces = [Segment(at, half(rng, each, 64), half(rng, each, 64)) for at in range(0, tokens, each)]
        return Job(random_q(rng, 2, 64), [(0, tokens)], 0.125, pieces)

    image = build([job(256, 256), job(20, 1), job(16, 16)])
    word = image.placed[1]["segments_addr"] + WORD * 17
    board = await Board.on(dut)
    board.sink.b_channel.set_pause_generator(held_after(board, image.out, clocks))
    memory = await board.run(image, {"ctl": SecondTime({word: AxiResp.SLVERR})})
    first, second, third = image.statuses(memory)
    assert first["code"] == rm.Status.OK
    assert (second["code"], second["detail"], second["address"]) == (rm.Status.AXI_READ, rm.MASTER_CTL, word)
    assert third["code"] == rm.Status.NOT_RUN
    same(image, await board.run(image))
