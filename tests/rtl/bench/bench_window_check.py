# SPDX-License-Identifier: Apache-2.0
"""window_check: against `model_checks.Window.holds`, around both edges and near 2**64."""

import cocotb
from clocked import rng, settle
from nearkv_emulation.model_checks import Window


@cocotb.test()
async def edges(dut):
    random = rng()
    held = 0
    for _ in range(2000):
        size = random.choice([64, 4096, 2**33, 2**63, random.getrandbits(40) + 1])
        base = random.choice([0, 64, 2**64 - size, random.randint(0, 2**64 - size)])
        nbytes = random.choice([1, 64, 4096, 2**33 - 1, min(size, 2**33 - 1)])
        at = base + random.choice([0, size - nbytes, size]) + random.choice([-1, 0, 1, -64, 64])
        address = at % 2**64
        dut.base.value, dut.size.value, dut.address.value, dut.nbytes.value = base, size, address, nbytes
        await settle()
        assert int(dut.holds.value) == Window(base, size).holds(address, nbytes), (base, size, address, nbytes)
        held += int(dut.holds.value)
    assert 250 < held < 1750
