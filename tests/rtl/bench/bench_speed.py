# SPDX-License-Identifier: Apache-2.0
"""nearkv_attend with memory of cocotbext-axi as it comes, nothing watched: for benchmarks/rtl_simulation.py."""

import json
import os
import time
from mmap import mmap
from pathlib import Path

import cocotb
import numpy as np
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, RisingEdge
from cocotb.utils import get_sim_time
from cocotbext.axi import AxiLiteBus, AxiLiteMaster, AxiRamRead, AxiRamWrite, AxiReadBus, AxiWriteBus
from nearkv_driver import regmap as rm
from nearkv_emulation.model import ModelKernel
from timed_list import timed_list

from tests.support.jobs import comparable


@cocotb.test()
async def one_list(dut):
    image = timed_list(int(os.environ["NEARKV_TOKENS"]))
    size = 1 << (len(image.memory) - 1).bit_length()
    assert image.base % size == 0
    mem = mmap(-1, size)
    mem[: len(image.memory)] = image.memory.tobytes()
    dut.ap_rst_n.value = 0
    cocotb.start_soon(Clock(dut.ap_clk, 10, unit="ns").start())
    await ClockCycles(dut.ap_clk, 5)
    line = (dut.ap_clk, dut.ap_rst_n)
    host = AxiLiteMaster(AxiLiteBus.from_prefix(dut, "s_axi_control"), *line, reset_active_level=False)
    for name in ("kv", "ctl"):
        AxiRamRead(AxiReadBus.from_prefix(dut, f"m_axi_{name}"), *line, reset_active_level=False, size=size, mem=mem)
    AxiRamWrite(AxiWriteBus.from_prefix(dut, "m_axi_out"), *line, reset_active_level=False, size=size, mem=mem)
    dut.ap_rst_n.value = 1
    for address, value in ((rm.ADDR_KV, image.kv), (rm.ADDR_CTL, image.ctl), (rm.ADDR_OUT, image.out)):
        await host.write(address, value.to_bytes(8, "little"))
    await host.write_dword(rm.ADDR_GIER, 1)
    await host.write_dword(rm.ADDR_IP_IER, rm.IP_IER_DONE)
    await host.write_dword(rm.ADDR_CTRL, rm.CTRL_START)
    began, seconds = get_sim_time("ns"), time.process_time()
    await RisingEdge(dut.interrupt)
    seconds, cycles = time.process_time() - seconds, round((get_sim_time("ns") - began) / 10)
    memory = np.frombuffer(mem[: len(image.memory)], np.uint8)
    assert np.array_equal(comparable(image, memory), comparable(image, image.run(ModelKernel())))
    Path(os.environ["NEARKV_TOLD"]).write_text(json.dumps([cycles, seconds]))
