# SPDX-License-Identifier: Apache-2.0
"""control_registers: wide pointers, ap_ctrl_chain, a START while busy, interrupt enable and toggle."""

import cocotb
from clocked import cycles, reset
from cocotbext.axi import AxiLiteBus, AxiLiteMaster
from nearkv_driver import regmap as rm


async def fresh(dut):
    await reset(dut, list_accepted=0, list_done=0)
    return AxiLiteMaster(AxiLiteBus.from_prefix(dut, "s_axil"), dut.clk, dut.rst)


async def pulse(dut, name):
    getattr(dut, name).value = 1
    await cycles(dut)
    getattr(dut, name).value = 0


@cocotb.test()
async def pointers_hold_64_bits(dut):
    axi = await fresh(dut)
    values = {rm.ADDR_KV: 0x40_0000_1000, rm.ADDR_CTL: 0x1_0000_0000, rm.ADDR_OUT: 0xFFFF_F000}
    for address, value in values.items():
        await axi.write(address, value.to_bytes(8, "little"))
    for address, value in values.items():
        assert int.from_bytes((await axi.read(address, 8)).data, "little") == value
    assert [int(x.value) for x in (dut.kv, dut.ctl, dut.out)] == list(values.values())
    await axi.write(rm.ADDR_KV + 1, b"\xab")
    assert await axi.read_dword(rm.ADDR_KV) == 0x0000AB00
    assert await axi.read_dword(0x40) == 0


@cocotb.test()
async def handshake_of_a_list(dut):
    axi = await fresh(dut)
    assert await axi.read_dword(rm.ADDR_CTRL) == rm.CTRL_IDLE
    await axi.write_dword(rm.ADDR_GIER, 1)
    await axi.write_dword(rm.ADDR_IP_IER, rm.IP_IER_DONE)
    await axi.write_dword(rm.ADDR_CTRL, rm.CTRL_START | rm.CTRL_AUTO_RESTART)
    assert await axi.read_dword(rm.ADDR_CTRL) == rm.CTRL_START
    await pulse(dut, "list_accepted")
    assert await axi.read_dword(rm.ADDR_CTRL) == rm.CTRL_READY
    assert await axi.read_dword(rm.ADDR_CTRL) == 0
    await axi.write_dword(rm.ADDR_CTRL, rm.CTRL_START)
    await pulse(dut, "list_done")
    await cycles(dut, 2)
    assert int(dut.interrupt.value) == 1
    assert await axi.read_dword(rm.ADDR_CTRL) == rm.CTRL_DONE | rm.CTRL_START
    assert int(dut.list_start.value) == 0
    await axi.write_dword(rm.ADDR_IP_ISR, rm.IP_IER_DONE)
    await cycles(dut, 2)
    assert int(dut.interrupt.value) == 0
    await axi.write_dword(rm.ADDR_CTRL, rm.CTRL_CONTINUE)
    await pulse(dut, "list_accepted")
    assert await axi.read_dword(rm.ADDR_CTRL) == rm.CTRL_READY
    await pulse(dut, "list_done")
    assert await axi.read_dword(rm.ADDR_CTRL) == rm.CTRL_DONE | rm.CTRL_IDLE
