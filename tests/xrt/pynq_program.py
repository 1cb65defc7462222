# SPDX-License-Identifier: Apache-2.0
"""What a PYNQ 3.0.1 program does with a card: overlay, buffers, calls, registers, and a P2P buffer that a drive fills.

pynq_program.py XCLBIN FILE: FILE lies on a drive and holds 1024 words. Knows no emulation, and nothing of nearkv.
"""

import os
import sys

import numpy as np
from pynq import Device, Overlay, allocate

WORDS, KEY = 1000, 5
P2P = 1 << 30  # a flag that PYNQ passes on with the bank


def require(ok: bool, what: str) -> None:
    if not ok:
        sys.exit(f"pynq_program: {what}")


def main(xclbin: str, path: str) -> None:
    overlay = Overlay(xclbin)
    require(set(overlay.ip_dict) == {"add_hs_1", "add_chain_1"}, f"units {set(overlay.ip_dict)}")
    source, result = (allocate((WORDS,), np.uint64, target=overlay.bank0) for _ in range(2))
    source[:] = np.arange(WORDS)
    source.sync_to_device()
    for unit in (overlay.add_hs_1, overlay.add_chain_1):
        for key in range(KEY, KEY + 3):
            unit.start(source, result, WORDS, key).wait()
            result.sync_from_device()
            require(np.array_equal(result, source + np.uint64(key)), f"{unit} with key {key}")
        unit.call(source, result, WORDS, KEY)
    require(int(overlay.add_hs_1.register_map.key) == KEY, "the register map shows the argument")

    device, unit = Device.active_device, overlay.add_hs_1
    handle = device.allocate_bo(8192, overlay.bank0.idx | P2P, 0)
    fd = os.open(path, os.O_RDONLY | os.O_DIRECT)
    require(os.preadv(fd, [memoryview(device.map_bo(handle))[:8192]], 0) == 8192, "preadv")
    os.close(fd)
    for offset, value in ((0x10, device.get_device_address(handle)), (0x1C, result.device_address), (0x30, 1)):
        unit.write(offset, value & 0xFFFFFFFF)
        unit.write(offset + 4, value >> 32)
    unit.write(0, 1)
    while not unit.read(0) & 6:
        pass
    result.sync_from_device()
    words = np.fromfile(path, np.uint64)[:WORDS]
    require(np.array_equal(result, words + np.uint64(1)), "words of the drive")
    print("finished")  # noqa: T201


main(*sys.argv[1:])
