# SPDX-License-Identifier: Apache-2.0
"""What the URL of a hw_emu card may say. Needs no Verilator: nothing is built before every option has been checked."""

from __future__ import annotations

from pathlib import Path

import pytest
from nearkv_driver.registry import open_transport, parse_url
from nearkv_emulation.hw_emu_options import HwEmuOptions, options_of
from nearkv_emulation.memory_model import Ddr4, Memory, MemoryTiming


def options(text: str = "") -> HwEmuOptions:
    return options_of(parse_url(f"hw_emu:0{text}"))


def test_defaults() -> None:
    found = options()
    assert (found.memory, found.timing, found.seed, found.wave) == (Memory(None, 300, 3.0), MemoryTiming(40), 1, None)
    info = found.info
    assert (info.kind, info.simulated, info.clock_hz, info.timeout_cycles) == ("hw_emu", True, 300_000_000, 0)
    assert (info.p2p, info.unit) == (True, "nearkv_attend")
    assert info.platform == "emulated, RTL in Verilator at 300 MHz, memory ideal"
    assert [(b.tag, b.base, b.nbytes) for b in info.banks] == [("DDR[0]", 0x4000000000, 4 << 30)]


def test_every_option_reaches_its_place(tmp_path: Path) -> None:
    found = options(
        "?dram=1G&base=0x1000&banks=2&p2p=bounce&drive=smartssd&memory=ddr4-2400,cl:18,rcd:18&clock=250M&latency=99"
        f"&stall=10&reorder=20&fill=1.5G&seed=7&timeout_cycles=5000&wave={tmp_path}/a%26b.fst"
    )
    assert found.memory == Memory(Ddr4(cl=18, rcd=18), 250, 1.5)
    assert found.timing == MemoryTiming(99, 10, 20)
    assert (found.seed, found.wave) == (7, tmp_path / "a&b.fst")
    info = found.info
    assert (info.clock_hz, info.timeout_cycles, len(info.banks), info.p2p) == (250_000_000, 5000, 2, False)
    assert not (tmp_path / "a&b.fst").exists()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("kernel=hls", "unknown option 'kernel'; hw_emu allows ssd"),
        ("memory=", "option 'memory='"),
        ("memory=hbm", "memory=hbm; known are ideal, ddr4-2400"),
        ("memory=ideal,cl:18", "an ideal memory has no figures"),
        ("memory=ddr4-2400,cl", "'cl' is not of the form figure:number, each once, of mhz, groups"),
        ("memory=ddr4-2400,cl:18,cl:19", "'cl:19' is not of the form"),
        ("memory=ddr4-2400,cas:18", "'cas:18' is not of the form"),
        ("memory=ddr4-2400,cl:-1", "'cl:-1' is not of the form"),
        ("memory=ddr4-2400,", "'' is not of the form"),
        ("memory=ddr4-2400,cl:0", "cl:0; a whole number from 1 to 255"),
        ("memory=ddr4-2400,groups:3", "groups:3; a power of two"),
        ("memory=ddr4-2400,refi:438", "refi:438; it must be above"),
        ("clock=300", "clock=300; whole megahertz from 10M to 1000M"),
        ("clock=300.5M", "clock=300.5M"),
        ("clock=0M", "clock=0M"),
        ("clock=2G", "clock=2G"),
        ("clock=5000K", "clock=5000K"),
        ("latency=0", "latency=0; a whole number from 1 to 10000"),
        ("stall=91", "stall=91; a whole number from 0 to 90"),
        ("reorder=101", "reorder=101"),
        ("fill=0", "fill=0; bytes per second from 1M to 1000G"),
        ("fill=3T", "fill=3T"),
        ("seed=-1", "seed=-1"),
        ("seed=x", "seed=x"),
        ("timeout_cycles=999", "timeout_cycles=999; a whole number from 1000 to 999999999"),
        ("drive=disk", "drive=disk; known are smartssd"),
        ("dram=4097", "multiples of 4096"),
        ("dram=8589934592G", "cannot map a bank"),
        ("banks=3", "banks=3; allowed are 1, 2"),
        ("p2p=off", "p2p=off; allowed are on, bounce"),
        ("wave=/nowhere/at/all.fst", "wave=/nowhere/at/all.fst; there is no folder /nowhere/at"),
        ("wave=/", "wave=/; it is no regular file"),
        ("wave=/dev/null", "wave=/dev/null; it is no regular file"),
        ("wave=~no-such-user/a.fst", "wave=~no-such-user/a.fst; there is no such user"),
        (f"wave={'a' * 300}.fst", "File name too long"),
    ],
)
def test_bad_options_are_refused_in_one_line(text: str, told: str) -> None:
    url = f"hw_emu:0?{text}"
    with pytest.raises(ValueError, match="card URL") as caught:
        open_transport(url)
    assert told in str(caught.value)
    assert repr(url) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("clock", "mhz"), [("250M", 250), ("1G", 1000), ("300000000", 300), ("10000K", 10)])
def test_clocks(clock: str, mhz: int) -> None:
    assert options(f"?clock={clock}").memory.clock_mhz == mhz
