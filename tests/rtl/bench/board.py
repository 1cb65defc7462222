# SPDX-License-Identifier: Apache-2.0
"""A board around `nearkv_attend`, of cocotbext-axi parts: one memory behind the three masters, and a host on the
control port.

Checks on the way: 4 KiB edges and sizes of every burst, that addresses stand still until they are accepted, that
nothing outside the image is touched. Knows no descriptor.
"""

from __future__ import annotations

import random

import cocotb
import numpy as np
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, Event, FallingEdge, First, RisingEdge, Timer
from cocotbext.axi import AxiLiteBus, AxiLiteMaster, AxiReadBus, AxiResp, AxiSlaveRead, AxiSlaveWrite, AxiWriteBus
from nearkv_driver import regmap as rm

WORD = rm.WORD_BYTES
PAGE = rm.PAGE_BYTES
MASTERS = {"kv": rm.MASTER_KV, "ctl": rm.MASTER_CTL, "out": rm.MASTER_OUT}


class Space:
    """What one master reaches: words of an image, less its holes. `errors`: {word address: response}."""

    def __init__(self, regions, errors=None):
        self.regions = regions
        self.errors = errors or {}

    def word(self, address):
        """(64 bytes or None, response)."""
        if address in self.errors:
            return None, self.errors[address]
        for region in self.regions:
            at = address - region.base
            if 0 <= at <= len(region.memory) - WORD:
                return region.memory[at : at + WORD], AxiResp.OKAY
        return None, AxiResp.DECERR


class Memory(AxiSlaveRead):
    """Answers reads; with `random`, after a latency of its own for each id, so that ids overtake each other."""

    def __init__(self, *args, space, log, random=None, **options):
        self.space, self.log_of_reads, self.random = space, log, random
        self.collector = None
        super().__init__(*args, **options)
        self.ar_channel.queue_occupancy_limit = 16

    async def _process_read(self):
        waiting = {}
        arrived = Event()

        async def collect():
            while True:
                ar = await self.ar_channel.recv()
                waiting.setdefault(int(ar.arid), []).append(ar)
                arrived.set()

        # A reset kills this task without a word; what it had started goes on.
        if self.collector is not None:
            self.collector.cancel()
        self.collector = cocotb.start_soon(collect())
        while True:
            while not any(waiting.values()):
                arrived.clear()
                await arrived.wait()
            if self.random is not None:
                # Whoever comes meanwhile may go first.
                await ClockCycles(self.clock, self.random.randint(1, 30))
            ids = [i for i, queue in waiting.items() if queue]
            await self._burst(waiting[self.random.choice(ids) if self.random else ids[0]].pop(0))

    async def _burst(self, ar):
        address, words = int(ar.araddr), int(ar.arlen) + 1
        self.log_of_reads.append((address, words))
        assert (int(ar.arsize), int(ar.arburst)) == (6, 1), "a burst is not INCR of 64 bytes"
        assert address % WORD == 0, f"address {address:#x} is not a multiple of 64"
        assert address // PAGE == (address + words * WORD - 1) // PAGE, f"{address:#x} + {words} words cross 4 KiB"
        for i in range(words):
            data, resp = self.space.word(address + WORD * i)
            r = self.r_channel._transaction_obj()
            r.rid, r.rlast, r.rresp = int(ar.arid), int(i == words - 1), int(resp)
            r.rdata = int.from_bytes(data.tobytes(), "little") if data is not None else 0
            await self.r_channel.send(r)


class Sink(AxiSlaveWrite):
    """Takes writes."""

    def __init__(self, *args, space, log, **options):
        self.space, self.log_of_writes = space, log
        super().__init__(*args, **options)

    async def _process_write(self):
        while True:
            aw = await self.aw_channel.recv()
            address, words = int(aw.awaddr), int(aw.awlen) + 1
            assert (int(aw.awsize), int(aw.awburst)) == (6, 1), "a burst is not INCR of 64 bytes"
            assert address % WORD == 0, f"address {address:#x} is not a multiple of 64"
            assert address // PAGE == (address + words * WORD - 1) // PAGE, f"{address:#x} + {words} words cross 4 KiB"
            answer = AxiResp.OKAY
            for i in range(words):
                w = await self.w_channel.recv()
                assert int(w.wlast) == (i == words - 1), "WLAST is not with the last word"
                data, resp = self.space.word(address + WORD * i)
                strobes = np.unpackbits(np.frombuffer(int(w.wstrb).to_bytes(8, "little"), np.uint8), bitorder="little")
                new = np.frombuffer(int(w.wdata).to_bytes(WORD, "little"), np.uint8)
                if resp == AxiResp.OKAY:
                    data[:] = np.where(strobes, new, data)
                answer = max(answer, resp)
                self.log_of_writes.append((address + WORD * i, new.tobytes()))
            b = self.b_channel._transaction_obj()
            b.bid, b.bresp = int(aw.awid), int(answer)
            await self.b_channel.send(b)


async def stands_still(dut, prefix, channel, fields):
    """Fails when a VALID falls, or what goes with it changes, before READY; reset excepted."""
    valid, ready = (getattr(dut, f"{prefix}_{channel}{end}") for end in ("valid", "ready"))
    held = None
    while True:
        await FallingEdge(dut.ap_clk)
        # A clock's falling edge shows what the next rising edge will see.
        if not int(dut.ap_rst_n.value):
            held = None
            continue
        now = [int(getattr(dut, f"{prefix}_{channel}{f}").value) for f in fields] if int(valid.value) else None
        assert held is None or now == held, f"{prefix} {channel}: {held} became {now} before it was accepted"
        held = now if now is not None and not int(ready.value) else None


def pauses(random, percent):
    while True:
        yield random.random() * 100 < percent


class Board:
    """`await Board.on(dut)` gives one that is out of reset; then `run(image)` gives the memory after a list.

    seed: of every pause and latency; stall: percent of cycles in which each channel pauses; reorder: ids overtake.
    """

    @classmethod
    async def on(cls, dut, seed=1, stall=0, reorder=False, clocks=20):
        """Before the first edges of a reset outputs may be anything, so nobody listens to them."""
        dut.ap_rst_n.value = 0
        cocotb.start_soon(Clock(dut.ap_clk, 10, unit="ns").start())
        await ClockCycles(dut.ap_clk, 2)
        board = cls(dut, seed, stall, reorder)
        await board.reset(clocks)
        return board

    def __init__(self, dut, seed, stall, reorder):
        self.dut = dut
        self.random = random.Random(seed)
        self.reads = {"kv": [], "ctl": []}
        self.writes = []
        self.spaces = {name: Space([]) for name in MASTERS}
        reset = (dut.ap_clk, dut.ap_rst_n, False)
        clock, line, level = reset
        self.host = AxiLiteMaster(AxiLiteBus.from_prefix(dut, "s_axi_control"), clock, line, level)
        later = self.random if reorder else None
        self.memories = {
            name: Memory(
                AxiReadBus.from_prefix(dut, f"m_axi_{name}"),
                clock,
                line,
                reset_active_level=level,
                space=self.spaces[name],
                log=self.reads[name],
                random=later,
            )
            for name in self.reads
        }
        self.sink = Sink(
            AxiWriteBus.from_prefix(dut, "m_axi_out"),
            clock,
            line,
            reset_active_level=level,
            space=self.spaces["out"],
            log=self.writes,
        )
        if stall:
            host = self.host
            parts = [self.sink.aw_channel, self.sink.w_channel, self.sink.b_channel]
            parts += [part for m in self.memories.values() for part in (m.ar_channel, m.r_channel)]
            parts += [host.write_if.aw_channel, host.write_if.w_channel, host.write_if.b_channel]
            parts += [host.read_if.ar_channel, host.read_if.r_channel]
            for part in parts:
                part.set_pause_generator(pauses(random.Random(self.random.getrandbits(32)), stall))
        for name in self.reads:
            cocotb.start_soon(stands_still(dut, f"m_axi_{name}", "ar", ("addr", "len", "id")))
        cocotb.start_soon(stands_still(dut, "m_axi_out", "aw", ("addr", "len", "id")))
        cocotb.start_soon(stands_still(dut, "m_axi_out", "w", ("data", "strb", "last")))

    async def reset(self, clocks=20):
        self.dut.ap_rst_n.value = 0
        await ClockCycles(self.dut.ap_clk, clocks)
        self.dut.ap_rst_n.value = 1

    def map(self, image, errors=None):
        """Puts a copy of an image behind the masters and returns it. `errors`: {master: {word address: response}}."""
        memory = image.memory.copy()
        masters = image.masters(memory)
        for name in MASTERS:
            self.spaces[name].regions = getattr(masters, name)
            self.spaces[name].errors = (errors or {}).get(name, {})
        return memory

    async def pointers(self, image):
        for address, value in ((rm.ADDR_KV, image.kv), (rm.ADDR_CTL, image.ctl), (rm.ADDR_OUT, image.out)):
            await self.host.write(address, value.to_bytes(8, "little"))

    async def start(self, image):
        """Writes the pointers and START; the interrupt is enabled for DONE."""
        await self.pointers(image)
        await self.host.write_dword(rm.ADDR_GIER, 1)
        await self.host.write_dword(rm.ADDR_IP_IER, rm.IP_IER_DONE)
        await self.host.write_dword(rm.ADDR_CTRL, rm.CTRL_START)

    async def interrupted(self, limit=100_000):
        """Waits for the interrupt, `limit` cycles at most."""
        if int(self.dut.interrupt.value):
            return
        await First(RisingEdge(self.dut.interrupt), Timer(limit * 10, "ns"))
        assert int(self.dut.interrupt.value), f"no interrupt within {limit} cycles"

    async def finish(self):
        """Acknowledges a list that has ended."""
        assert await self.host.read_dword(rm.ADDR_CTRL) & rm.CTRL_DONE, "interrupt without DONE"
        await self.host.write_dword(rm.ADDR_IP_ISR, rm.IP_IER_DONE)
        await self.host.write_dword(rm.ADDR_CTRL, rm.CTRL_CONTINUE)
        await ClockCycles(self.dut.ap_clk, 3)
        assert not int(self.dut.interrupt.value), "the interrupt stays after its status was cleared"

    async def run(self, image, errors=None, limit=100_000):
        memory = self.map(image, errors)
        await self.start(image)
        await self.interrupted(limit)
        await self.finish()
        return memory
