# SPDX-License-Identifier: Apache-2.0
"""Opening a card behind XRT: what is missing, which card, which binary. Each cause has its own text and its own fix."""

from __future__ import annotations

import gc
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from nearkv_driver.errors import BuildMismatch, TransportUnavailable
from nearkv_driver.registry import open_transport, parse_url
from nearkv_driver.xrt.binary import same_platform
from nearkv_driver.xrt.opening import Machine, choose_api, open_card
from nearkv_driver.xrt.places import Places

from tests.support import sysfs_trees
from tests.support.cli import environment
from tests.support.fake_pyxrt import BDF, SHELL, Script, write_binary
from tests.support.xrt_machines import Rig, no_native, rig


@pytest.fixture
def good(tmp_path: Path) -> Rig:
    return rig(tmp_path)


def missing(name: str) -> Any:
    raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def broken(name: str) -> Any:
    raise ImportError("libxrt_coreutil.so.2: cannot open shared object file")


def refused(machine: Rig, more: str = "", target: str = BDF) -> str:
    with pytest.raises(TransportUnavailable) as caught:
        machine.open(more, target)
    assert caught.value.remedy
    assert str(caught.value).startswith("xrt:")
    text = str(caught.value)
    assert "\n" not in text
    del caught  # its traceback holds frames of the fake, which pyxrt does not have
    gc.collect()
    assert not any(machine.script.objects.values())
    return text


def test_no_pyxrt_and_nothing_in_its_place(good: Rig, tmp_path: Path) -> None:
    (tmp_path / "modules").mkdir()
    places = replace(good.machine.places, python_path=(str(tmp_path / "modules"),))
    text = refused(replace(good, machine=replace(good.machine, places=places, load=missing)))
    assert f"no pyxrt for {sys.implementation.cache_tag}" in text
    assert str(tmp_path / "modules") in text
    assert "no XRT headers" in text
    assert "in Debian 12 and 13 that name is another program" in text


def test_a_pyxrt_that_does_not_load(good: Rig) -> None:
    text = refused(replace(good, machine=replace(good.machine, load=broken)))
    assert "pyxrt is there but does not load: libxrt_coreutil.so.2" in text
    assert "source its setup.sh" in text


def test_a_pyxrt_for_another_python(good: Rig, tmp_path: Path) -> None:
    folder = tmp_path / "python"
    folder.mkdir()
    (folder / "pyxrt.cpython-38-x86_64-linux-gnu.so").write_bytes(b"")
    places = replace(good.machine.places, root=str(tmp_path))
    text = refused(replace(good, machine=replace(good.machine, places=places, load=missing)))
    assert f"another Python; found {folder / 'pyxrt.cpython-38-x86_64-linux-gnu.so'}" in text
    assert f"this is {sys.implementation.cache_tag}" in text


def test_our_own_binding_takes_the_place_of_pyxrt_and_says_so(good: Rig) -> None:
    notes = []
    machine = replace(good.machine, load=broken, native=lambda places, note: notes.append(note))  # type: ignore[arg-type,func-returns-value]
    choose_api("auto", machine, "xrt:0")
    assert notes == [
        "in place of pyxrt: pyxrt is there but does not load: libxrt_coreutil.so.2: cannot open shared object file"
    ]
    with pytest.raises(TransportUnavailable, match="does not load"):
        choose_api("pyxrt", machine, "xrt:0")
    choose_api("native", machine, "xrt:0")
    assert notes[1] == "the card URL says api=native"


def test_no_card(tmp_path: Path) -> None:
    machine = rig(tmp_path, Script(cards=0))
    places = replace(machine.machine.places, sysfs=tmp_path / "empty")
    text = refused(replace(machine, machine=replace(machine.machine, places=places)), target="0")
    assert "this machine has no PCI device of Xilinx" in text
    assert "lspci -d 10ee:" in text


def test_no_module(tmp_path: Path) -> None:
    machine = rig(tmp_path, Script(cards=0))
    tree = sysfs_trees.Tree(tmp_path / "bare")
    tree.function("0000:00:01.1", "0000:3e:00.1", vendor="0x10ee")
    places = replace(machine.machine.places, sysfs=tree.root)
    text = refused(replace(machine, machine=replace(machine.machine, places=places)), target="0")
    assert "XRT's kernel module has not taken the card" in text
    assert "modprobe xocl" in text


def test_xrts_own_variable(tmp_path: Path) -> None:
    assert "setup.sh, which sets XILINX_XRT" in refused(rig(tmp_path, Script(refuse_open="XILINX_XRT not set")))


def test_no_rights(tmp_path: Path) -> None:
    text = refused(rig(tmp_path, Script(refuse_open="failed to open /dev/dri/renderD128: Permission denied")))
    assert "no right to open the card" in text
    assert "/dev/dri/renderD*" in text


def test_a_card_that_is_not_there_names_those_that_are(good: Rig) -> None:
    assert f"cards: {BDF} {SHELL}" in refused(good, target="0000:99:00.1")
    assert "function .0 manages the card" in refused(good, target="0000:3e:00.0")


@pytest.mark.parametrize("target", ["0", BDF, BDF.removeprefix("0000:"), SHELL])
def test_a_card_is_found_by_index_address_and_name(good: Rig, target: str) -> None:
    card = good.open(target=target)
    info = card.info()
    assert (info.kind, info.simulated) == ("xrt", False)
    assert f"{SHELL} at {BDF}, through pyxrt by runs" in info.platform
    assert [bank.tag for bank in info.banks] == ["bank0"]
    card.close()


def test_names_that_fit_no_card_or_several_are_refused(tmp_path: Path) -> None:
    machine = rig(tmp_path, Script(cards=2, names=(SHELL, SHELL)))
    text = refused(machine, target=SHELL)
    assert f"2 cards are called {SHELL!r}; cards: 0000:3e:00.1 {SHELL}, 0000:3f:00.1 {SHELL}" in text
    assert "no card is called 'u50'" in refused(machine, target="u50")


def test_a_binary_must_be_named_and_may_stand_in_the_environment(good: Rig) -> None:
    with pytest.raises(TransportUnavailable, match="add xclbin=FILE to the card URL, or set NEARKV_XCLBIN"):
        open_card(parse_url("xrt:0"), good.machine)
    machine = replace(good.machine, places=replace(good.machine.places, xclbin=str(good.binary)))
    open_card(parse_url("xrt:0?p2p=bounce"), machine).close()
    assert Places.of({"NEARKV_XCLBIN": "f", "XILINX_XRT": "/r"}, ["p"]) == Places("/r", "", "f", ("p",))


@pytest.mark.parametrize(
    ("name", "data", "text"),
    [
        ("missing.xclbin", None, "missing.xclbin: cannot be read: No such file"),
        ("top.bit", b"\x00\x09\x0f\xf0\x0f\xf0\x0f\xf0\x0f\xf0\x00\x00\x01a" + bytes(600), "a .bit file"),
        ("text.xclbin", b"hello " * 200, "text.xclbin"),
    ],
)
def test_files_that_are_no_binary(good: Rig, name: str, data: bytes | None, text: str) -> None:
    if data is not None:
        (good.folder / name).write_bytes(data)
    with pytest.raises(TransportUnavailable) as caught:
        open_card(parse_url(f"xrt:{BDF}?xclbin={good.folder / name}"), good.machine)
    assert text in str(caught.value)
    assert "nearkv xclbin info" in caught.value.remedy
    assert not any(good.script.objects.values())


def test_half_a_file_names_the_section(good: Rig) -> None:
    data = good.binary.read_bytes()
    good.binary.write_bytes(data[: len(data) // 2])
    assert str(good.binary) in refused(good)


def test_a_binary_for_another_card_is_refused_before_it_is_loaded(good: Rig) -> None:
    write_binary(good.binary, platform="xilinx_u50_gen3x16_xdma_5_202210_1")
    with pytest.raises(BuildMismatch) as caught:
        good.open()
    assert "xilinx_u50_gen3x16_xdma_5_202210_1" in str(caught.value)
    assert SHELL in str(caught.value)
    assert not any(good.script.objects.values())


def test_a_binary_that_names_the_shells_interface_fits_whatever_its_name(tmp_path: Path) -> None:
    interface = "862C7020-A250-293E-3203-6F19956669E5"
    machine = rig(tmp_path, Script(interface=interface))
    for blob, fits in ((interface.replace("-", "").lower().encode(), True), (b"0" * 32, False)):
        write_binary(machine.binary, platform="renamed", partition=b"\0\xd0\x0d\xfeinterface_uuid\0" + blob + b"\0")
        if fits:
            machine.open("&p2p=bounce").close()
        else:
            with pytest.raises(BuildMismatch, match="renamed"):
                machine.open("&p2p=bounce")


def test_a_second_binary_names_the_one_that_is_loaded(tmp_path: Path) -> None:
    other = "01234567-89ab-cdef-0123-456789abcdef"
    machine = rig(tmp_path, Script(loaded=other, refuse_load="failed to load xclbin: Device or resource busy"))
    text = refused(machine)
    assert f"the card holds {other}" in text
    assert str(machine.binary) in text
    assert "end the programs that use the binary" in text


def test_a_binary_that_the_shell_refuses(tmp_path: Path) -> None:
    machine = rig(tmp_path, Script(refuse_load="failed to load xclbin: Operation not supported (err=-95)"))
    assert "linked for this shell" in refused(machine)


@pytest.mark.parametrize(
    ("binary", "shell", "same"),
    [
        ("xilinx_u2_gen3x4_xdma_gc_2_202110_1", "xilinx_u2_gen3x4_xdma_gc_base_2", True),
        ("xilinx_u2_gen3x4_xdma_gc_2_202110_1", "xilinx_u2_gen3x4_xdma_gc_2_202110_1", True),
        ("xilinx_u50_gen3x16_xdma_5_202210_1", "xilinx_u50_gen3x16_xdma_base_5", True),
        ("xilinx_u280_xdma_201920_3", "xilinx_u280_xdma_201920_3", True),
        ("xilinx_u50_gen3x16_xdma_5_202210_1", "xilinx_u50_gen3x16_xdma_base_4", False),
        ("xilinx_u2_gen3x4_xdma_gc_2_202110_1", "xilinx_u50_gen3x16_xdma_base_5", False),
    ],
)
def test_names_of_platforms_and_shells(binary: str, shell: str, same: bool) -> None:
    assert same_platform(binary, shell) == same


@pytest.mark.parametrize(
    ("more", "text"), [("&api=x", "auto, pyxrt, native"), ("&control=x", "auto, registers, runs"), ("&kernel=x", "cu")]
)
def test_options(good: Rig, more: str, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        good.open(more)


def test_a_machine_without_xrt_still_imports_and_says_what_to_do(tmp_path: Path) -> None:
    """As a user meets it: importing costs nothing, only asking for the card fails."""
    code = (
        "import sys; sys.modules['pyxrt'] = None\n"
        "import nearkv, nearkv_driver.xrt\n"
        "from nearkv_driver.registry import open_transport\n"
        "open_transport('sw_emu:0?kernel=model').close()\n"
        "try: open_transport(sys.argv[1])\n"
        "except Exception as error: print(type(error).__name__, error)\n"
    )
    binary = write_binary(tmp_path / "k.xclbin")
    line = [sys.executable, "-c", code, f"xrt:0?xclbin={binary}&api=pyxrt"]
    environ = environment(tmp_path)
    done = subprocess.run(line, env=environ, capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.startswith("TransportUnavailable xrt:0?")
    assert "pyxrt" in done.stdout


def test_the_version_is_that_of_xrts_own_file(good: Rig, tmp_path: Path) -> None:
    machine = replace(good.machine, places=replace(good.machine.places, root=str(tmp_path)))
    assert choose_api("auto", machine, "").info().version == ""
    (tmp_path / "version.json").write_text('{"BUILD_VERSION": "2.13.466"}')
    assert choose_api("auto", machine, "").info().version == "2.13.466"


def test_the_registry_knows_the_scheme(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="unknown option 'dram'; xrt allows"):
        open_transport("xrt:0?dram=4G")


def test_a_card_in_emulation_that_does_not_open(good: Rig) -> None:
    machine = Machine(replace(good.machine.places, emulation="hw_emu"), load=good.machine.load, native=no_native)
    text = refused(replace(good, machine=machine), target="9")
    assert "nearkv xrt-emulate -- COMMAND" in text
