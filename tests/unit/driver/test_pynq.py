# SPDX-License-Identifier: Apache-2.0
"""A card through PYNQ: each cause of not having one has its own text, and what PYNQ does not check is checked."""

from __future__ import annotations

import errno
import gc
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from nearkv_driver.device import NearDevice
from nearkv_driver.errors import BuildMismatch, DriverError, OutOfDeviceMemory, TransportUnavailable
from nearkv_driver.pynq import open_card
from nearkv_driver.registry import open_transport, parse_url
from nearkv_driver.regmap import ADDR_CTRL, ADDR_KV, CTRL_IDLE, Implementation
from nearkv_driver.xclbin import Design, read_container
from nearkv_driver.xclbin.tables import BankType
from nearkv_driver.xrt.opening import Machine

from tests.support.fake_pynq import Script
from tests.support.fake_pyxrt import BDF, SHELL, write_binary
from tests.support.pynq_machines import PynqRig, rig

PAGE = 4096


@pytest.fixture
def good(tmp_path: Path) -> PynqRig:
    return rig(tmp_path)


def refused(machine: PynqRig, more: str = "", target: str = BDF) -> str:
    """The text of the refusal; nothing is left open behind it."""
    with pytest.raises(TransportUnavailable) as caught:
        machine.open(more, target)
    assert caught.value.remedy
    text = str(caught.value)
    assert text.startswith("pynq:")
    assert "\n" not in text
    del caught
    clean(machine.script)
    return text


def clean(script: Script) -> None:
    gc.collect()
    assert script.misuse == []
    assert script.buffers == 0


def loading(machine: PynqRig, load: Any) -> PynqRig:
    return PynqRig(machine.folder, Machine(machine.machine.places, load=load), machine.script)


def failing(error: BaseException) -> Any:
    def load(name: str) -> Any:
        raise error

    return load


def test_pynq_is_missing(good: PynqRig) -> None:
    text = refused(loading(good, failing(ModuleNotFoundError("No module named 'pynq'", name="pynq"))))
    assert f"PYNQ is not installed for this Python 3.{sys.version_info.minor} ({sys.executable})" in text
    assert 'pip install pynq==3.0.1 "pycparser<3"' in text


def test_a_pynq_whose_parser_is_too_new(good: PynqRig) -> None:
    text = refused(loading(good, failing(ModuleNotFoundError("No module named 'pycparser.ply'", name="pycparser.ply"))))
    assert "PYNQ is there but does not load: No module named 'pycparser.ply'" in text
    assert "pycparser<3" in text


def test_a_pynq_that_breaks_in_its_own_way(good: PynqRig) -> None:
    text = refused(loading(good, failing(AttributeError("module 'numpy' has no attribute 'float_'"))))
    assert "does not load: AttributeError" in text
    assert "numpy<2" in text


@pytest.mark.parametrize("version", ["4.0.0", "3.1.2"])
def test_later_versions_have_dropped_cards(tmp_path: Path, version: str) -> None:
    text = refused(rig(tmp_path, Script(version=version)))
    assert f"PYNQ {version} is installed: the last PYNQ that supports PCIe cards is 3.0.1; later ones" in text
    assert "through xrt:" in text


def test_a_later_version_is_named_even_where_its_binding_of_xrt_is_gone(good: PynqRig) -> None:
    module = SimpleNamespace(__version__="4.0.0")
    assert "PYNQ 4.0.0" in refused(loading(good, {"pynq": module}.__getitem__))


def test_older_versions_are_not_taken(tmp_path: Path) -> None:
    assert "PYNQ 2.7.0 is installed: nearkv knows 3.0.1 only" in refused(rig(tmp_path, Script(version="2.7.0")))


def test_xrt_is_missing(good: PynqRig) -> None:
    text = refused(good.where(root=""))
    assert "XILINX_XRT, which is not set" in text
    assert "setup.sh" in text


def test_xrts_library_is_missing(good: PynqRig) -> None:
    error = OSError("libxrt_core.so: cannot open shared object file: No such file or directory")
    text = refused(loading(good, failing(error)))
    assert f"PYNQ cannot load XRT's library in {good.folder}/lib: libxrt_core.so" in text
    assert "libxrt-dev" in text


def test_xrt_is_too_new(good: PynqRig) -> None:
    (good.folder / "version.json").write_text('{"BUILD_VERSION": "2.17.319"}')
    assert "XRT 2.17.319 has dropped what PYNQ 3.0.1 calls; install XRT 2.16 or older" in refused(good)
    (good.folder / "version.json").write_text('{"BUILD_VERSION": "2.16.204"}')
    good.open().close()


def test_emulations_that_pynq_does_not_know(good: PynqRig) -> None:
    assert "PYNQ knows no emulation 'sw_emu'" in refused(good.where(emulation="sw_emu"))


def test_no_devices(tmp_path: Path) -> None:
    empty = rig(tmp_path, Script(cards=0)).where(sysfs=tmp_path / "none")
    text = refused(empty, target="0")
    assert "no card: this machine has no PCI device of Xilinx" in text
    assert "no card 0; PYNQ's cards: none" in text


def test_a_card_that_is_not_there_names_those_that_are(good: PynqRig) -> None:
    assert f"PYNQ's cards: {BDF} {SHELL}" in refused(good, target="0000:99:00.1")


def test_a_card_that_emulation_does_not_have(good: PynqRig) -> None:
    text = refused(good.where(emulation="hw_emu"), target="9")
    assert "XRT's emulation has no card '9'" in text
    assert "--devices N" in text


def test_no_rights(tmp_path: Path) -> None:
    assert "no right to open the card" in refused(rig(tmp_path, Script(refuse_open=True)))


def test_a_binary_for_another_platform_names_both(good: PynqRig) -> None:
    write_binary(good.binary, platform="xilinx_u50_gen3x16_xdma_5_202210_1")
    with pytest.raises(BuildMismatch) as caught:
        good.open()
    assert "xilinx_u50_gen3x16_xdma_5_202210_1" in str(caught.value)
    assert SHELL in str(caught.value)
    clean(good.script)


def test_a_binary_that_another_program_keeps_out(tmp_path: Path) -> None:
    text = refused(rig(tmp_path, Script(refuse_load=errno.EBUSY)))
    assert "Programming Device failed: EBUSY (16)" in text
    assert "end the programs that use the binary" in text


def test_a_binary_that_the_shell_refuses(tmp_path: Path) -> None:
    assert "linked for this shell" in refused(rig(tmp_path, Script(refuse_load=errno.EOPNOTSUPP)))


def test_a_binary_that_pynqs_reader_does_not_take(good: PynqRig) -> None:
    design = Design.of(read_container(good.binary), "")
    host = replace(design.banks[0], tag="HOST[0]", base=0x2000000000, type=BankType.HOST)
    good.binary.write_bytes(replace(design, banks=(*design.banks, host)).container(b"").pack())
    text = refused(good)
    assert "PYNQ cannot read the file (IndexError" in text
    assert "no bank of type HOST" in text


def test_a_unit_that_another_program_holds(tmp_path: Path) -> None:
    text = refused(rig(tmp_path, Script(held=True)))
    assert "Could not open CU context" in text
    assert "another program may hold it" in text


@pytest.mark.parametrize("target", ["0", BDF, BDF.removeprefix("0000:"), SHELL])
def test_a_card_is_found_by_index_address_and_name(good: PynqRig, target: str) -> None:
    card = good.open(target=target)
    info = card.info()
    assert (info.kind, info.p2p, info.p2p_reason) == ("pynq", True, "")
    assert info.platform == f"{SHELL} at {BDF}, through PYNQ 3.0.1 by registers (over XRT 2.13.466)"
    card.close()
    clean(good.script)


def test_two_cards_of_one_name(tmp_path: Path) -> None:
    machine = rig(tmp_path, Script(cards=2))
    assert f"0000:3f:00.1 {SHELL}" in refused(machine, target=SHELL)
    assert "e.g. pynq:0000:3b:00.1" in refused(machine, target=SHELL)
    other = machine.open("&p2p=bounce", target="0000:3f:00.1")
    first = machine.open(target="0")
    assert "0000:3f:00.1" in other.info().platform
    other.close()
    assert first.read32(ADDR_CTRL) == CTRL_IDLE
    first.close()
    clean(machine.script)


def test_one_process_does_not_open_a_card_twice(good: PynqRig) -> None:
    """PYNQ's object for a card is one, and loading a binary closes the contexts that it has."""
    card = good.open()
    for target in (BDF, "0", SHELL):
        with pytest.raises(TransportUnavailable, match="this process drives the card already"):
            good.open(target=target)
    assert card.read32(ADDR_CTRL) == CTRL_IDLE
    card.close()
    good.open().close()
    clean(good.script)


def test_the_order_of_closing(good: PynqRig) -> None:
    """The card goes last, when nothing of it is left: XRT would free what others still use."""
    card = good.open("&p2p=bounce")
    for _ in range(2):
        card.alloc(PAGE, 0)
    good.script.events.clear()
    card.close()
    assert good.script.events == ["context", "buffer", "buffer", "close"]
    clean(good.script)


def test_a_view_keeps_its_memory_and_the_card_behind_it(good: PynqRig) -> None:
    card = good.open()
    buffer = card.alloc(PAGE, 0, p2p=True)
    view = buffer.view(PAGE)
    open_before = good.script.handles
    card.close()
    view[:4] = b"kept"
    assert bytes(view[:4]) == b"kept"
    assert (good.script.buffers, good.script.handles) == (1, open_before)
    again = good.open()  # with a handle of its own
    del view, buffer
    gc.collect()
    assert again.read32(ADDR_CTRL) == CTRL_IDLE
    again.close()
    clean(good.script)
    assert good.script.handles == 0


def test_p2p_is_a_flag_beside_the_bank(good: PynqRig) -> None:
    card = good.open()
    good.script.flags.clear()
    normal, p2p = card.alloc(PAGE, 0), card.alloc(PAGE, 0, p2p=True)
    assert good.script.flags == [0, 1 << 30]
    assert normal.address != p2p.address
    assert min(normal.address, p2p.address) > 1 << 32
    card.close()


def test_a_full_bank(good: PynqRig) -> None:
    card = good.open()
    card.alloc(15 << 20, 0)
    for p2p in (False, True):
        with pytest.raises(OutOfDeviceMemory, match="made no buffer of 1048576 bytes in bank0"):
            card.alloc(1 << 20, 0, p2p=p2p)
    card.close()
    clean(good.script)


def test_a_p2p_buffer_that_xrt_refuses_makes_the_card_bounce(tmp_path: Path) -> None:
    card = rig(tmp_path, Script(p2p=False)).open()
    info = card.info()
    assert not info.p2p
    assert "Allocate failed: 4294967295" in info.p2p_reason
    assert "p2p=bounce" in info.p2p_reason
    card.close()


def test_a_read_that_failed_is_an_error_and_not_a_zero(good: PynqRig) -> None:
    card = good.open()
    good.script.registers = False
    with pytest.raises(DriverError, match=r"cannot read register 0x10: xclRead at 0x[0-9a-f]+ moved -1 of 4"):
        card.read32(ADDR_KV)
    with pytest.raises(DriverError, match="cannot write register 0x10: xclWrite"):
        card.write32(ADDR_KV, 1)
    card.close()


@pytest.mark.parametrize(("script", "text"), [("maps", "maps no 4096 bytes"), ("addresses", "no device address")])
def test_a_buffer_that_cannot_be_used_is_freed(good: PynqRig, script: str, text: str) -> None:
    card = good.open("&p2p=bounce")
    setattr(good.script, script, False)
    with pytest.raises(DriverError, match=text):
        card.alloc(PAGE, 0)
    card.close()
    clean(good.script)


def test_a_device_runs_lists(good: PynqRig) -> None:
    with NearDevice.open(good.open("&p2p=bounce"), timeout_s=10) as device:
        assert device.identity.implementation is Implementation.MODEL
    clean(good.script)


@pytest.mark.parametrize("more", ["&api=native", "&control=runs", "&kernel=x"])
def test_options(good: PynqRig, more: str) -> None:
    with pytest.raises(ValueError, match="pynq allows"):
        good.open(more)


def test_a_binary_must_be_named(good: PynqRig) -> None:
    with pytest.raises(TransportUnavailable, match="add xclbin=FILE"):
        open_card(parse_url("pynq:0"), good.machine)


def test_the_registry_knows_the_scheme() -> None:
    with pytest.raises(ValueError, match="unknown option 'dram'; pynq allows"):
        open_transport("pynq:0?dram=4G")
