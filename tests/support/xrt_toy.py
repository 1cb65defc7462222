# SPDX-License-Identifier: Apache-2.0
"""A kernel that is not ours, as the device process meets one: `dst[i] = src[i] + key` over 8-byte words.

In three forms: started as `ap_ctrl_hs`, as `ap_ctrl_chain`, and as `ap_ctrl_hs` with its source in memory of the host.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from nearkv_driver.xclbin import Argument, Bank, Clock, Design, Kernel, Port, Unit
from nearkv_driver.xclbin.tables import BankType, Protocol
from nearkv_emulation.xrt_device.function_unit import FunctionUnit
from nearkv_emulation.xrt_device.model import KernelModel, UnitPlace

BASE, HOST = 0x40_0000_0000, 0x20_0000_0000
# Forms of the kernel: its protocol, the bank of its source, the base of its unit.
FORMS = {
    "add_hs": (Protocol.AP_CTRL_HS, "bank0", 0x180_0000),
    "add_chain": (Protocol.AP_CTRL_CHAIN, "bank0", 0x181_0000),
    "add_host": (Protocol.AP_CTRL_HS, "HOST[0]", 0x182_0000),
}
MODELS = tuple(f"{name}=tests.support.xrt_toy:make" for name in FORMS)


def kernel(name: str) -> Kernel:
    ports = (Port("s_axi_control", "slave", 0x1000, 32), Port("m_axi_gmem", "master", 0xFFFFFFFFFFFFFFFF, 64))
    arguments = (
        Argument("src", 0, "m_axi_gmem", 0x10, 8, "void*"),
        Argument("dst", 1, "m_axi_gmem", 0x1C, 8, "void*"),
        Argument("words", 2, "s_axi_control", 0x28, 4, "unsigned int", pointer=False),
        Argument("key", 3, "s_axi_control", 0x30, 8, "unsigned long long", pointer=False),
    )
    return Kernel(name, FORMS[name][0], ports, arguments)


def design(host: bool = True) -> Design:
    """`host`: with the form that reads memory of the host, and a bank for that."""
    forms = {name: form for name, form in FORMS.items() if host or name != "add_host"}
    units = [Unit(n, f"{n}_1", base, {"src": bank, "dst": "bank0"}) for n, (_, bank, base) in forms.items()]
    banks = [Bank("bank0", BASE, 1 << 28)] + [Bank("HOST[0]", HOST, 1 << 30, BankType.HOST)] * host
    return Design("toy", tuple(map(kernel, forms)), tuple(units), tuple(banks), (Clock("DATA_CLK", 300),))


def write_xclbin(folder: Path, host: bool = True) -> Path:
    path = folder / "toy.xclbin"
    path.write_bytes(design(host).container(b"no bitstream").pack())
    return path


def make(place: UnitPlace) -> KernelModel:
    def run(arguments: Mapping[str, int]) -> None:
        if not arguments["words"]:
            raise ValueError("nothing to add to")
        words = np.frombuffer(place.memory.read(arguments["src"], 8 * arguments["words"]), np.uint64)
        place.memory.write(arguments["dst"], (words + np.uint64(arguments["key"])).tobytes())

    return FunctionUnit(place.name, place.kernel, run)
