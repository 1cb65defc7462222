# SPDX-License-Identifier: Apache-2.0
"""What doctor says of a card behind XRT: one line for each thing, a fix for each that fails, and bytes that moved."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from nearkv.doctor import check_card
from nearkv.doctor_check import Check
from nearkv.doctor_selftest import check_moves
from nearkv.doctor_xrt import check_xrt
from nearkv_driver.device import NearDevice
from nearkv_driver.registry import parse_url
from nearkv_emulation.faults import FaultyTransport

from tests.support import pynq_machines
from tests.support.fake_pynq import Script
from tests.support.fake_pyxrt import write_binary
from tests.support.sysfs_trees import ENABLED, GIB, VBNV
from tests.support.xrt_machines import Rig, rig


def by_name(checks: list[Check]) -> dict[str, Check]:
    for check in checks:
        assert check.ok or check.fix, check
    return {check.name.rpartition(" xrt:0000:3e:00.1 ")[2].split("xrt:0000:3e:00.1 ")[-1]: check for check in checks}


def looked_at(machine: Rig, more: str = "") -> dict[str, Check]:
    return by_name(check_xrt(parse_url(machine.url(more)), machine.machine))


def test_a_good_machine(tmp_path: Path) -> None:
    checks = looked_at(rig(tmp_path))
    assert list(checks) == ["XRT", "kernel module", "card and shell", "P2P state", "own drive", "IOMMU", "xclbin"]
    assert all(check.ok for check in checks.values())
    assert checks["XRT"].found.startswith("pyxrt")
    assert checks["kernel module"].found == "xocl 2.13.466,abc, xclmgmt 2.13.466,abc"
    assert checks["card and shell"].found == f"0000:3e:00.1 {VBNV}"
    assert checks["own drive"].found == "nvme0 (0000:3d:00.0), and the volume is on it"
    assert f"fits {VBNV}" in checks["xclbin"].found


def test_an_empty_machine(tmp_path: Path) -> None:
    machine = rig(tmp_path)
    empty = replace(machine.machine, places=replace(machine.machine.places, sysfs=tmp_path / "none"))
    checks = looked_at(replace(machine, machine=empty))
    assert {name for name, check in checks.items() if not check.ok} == {"kernel module", "card and shell"}
    assert "modprobe xocl" in checks["kernel module"].fix
    assert "lspci -d 10ee:" in checks["card and shell"].fix


def test_a_card_through_pynq(tmp_path: Path) -> None:
    machine = pynq_machines.rig(tmp_path)
    first, *others = check_xrt(parse_url(machine.url()), machine.machine)
    assert (first.ok, first.found) == (True, "PYNQ 3.0.1 (over XRT 2.13.466)")
    assert len(others) == 6
    assert all(check.ok for check in others)
    later = pynq_machines.rig(tmp_path / "later", Script(version="4.0.0"))
    check = check_xrt(parse_url(later.url()), later.machine)[0]
    assert not check.ok
    assert "PYNQ 4.0.0 is installed" in check.found
    assert "pip install pynq==3.0.1" in check.fix


@pytest.mark.parametrize("make", [rig, pynq_machines.rig])
def test_bytes_are_moved_through_a_card_whatever_its_binding(
    tmp_path: Path, make: Callable[[Path], Rig | pynq_machines.PynqRig]
) -> None:
    machine = make(tmp_path)
    checks = check_card(parse_url(machine.url()), lambda _: NearDevice.open(machine.open()))
    assert [check.name.rpartition(".1 ")[2] for check in checks] == ["opens", "P2P", "DMA", "drive to card"]
    assert all(check.ok for check in checks)


def test_p2p_that_is_off_and_a_volume_elsewhere(tmp_path: Path) -> None:
    machine = rig(tmp_path, config={**ENABLED, "bar": GIB // 4, "rbar": GIB // 4})
    link = next((tmp_path / "sys/dev/block").glob(f"{os.major(machine.ssd.stat().st_dev)}:*"))
    link.unlink()
    link.symlink_to((tmp_path / "sys/class/nvme/nvme1").resolve() / "nvme1n1")
    checks = looked_at(machine)
    assert "--p2p enable" in checks["P2P state"].fix
    assert "lies on nvme1" in checks["own drive"].found
    assert "below its bridge: nvme0" in checks["own drive"].found
    assert "ssd=FOLDER" in checks["own drive"].fix
    assert not checks["P2P state"].optional
    assert all(looked_at(machine, "&p2p=bounce")[name].optional for name in ("P2P state", "own drive"))


def test_a_binary_for_another_card(tmp_path: Path) -> None:
    machine = rig(tmp_path)
    write_binary(machine.binary, platform="xilinx_u50_gen3x16_xdma_5_202210_1")
    check = looked_at(machine)["xclbin"]
    assert not check.ok
    assert VBNV in check.found
    assert "xilinx_u50_gen3x16_xdma_5_202210_1" in check.found


def test_under_emulation_there_is_no_card_to_look_at(tmp_path: Path) -> None:
    machine = rig(tmp_path)
    emulated = replace(machine.machine, places=replace(machine.machine.places, emulation="hw_emu"))
    checks = looked_at(replace(machine, machine=emulated))
    assert list(checks) == ["XRT", "card", "xclbin"]
    assert checks["card"].found == "emulated by XRT (hw_emu)"


def test_the_self_test_moves_bytes_both_ways(tmp_path: Path) -> None:
    machine = rig(tmp_path)
    with NearDevice.open(machine.open()) as device:
        checks = by_name(check_moves(parse_url(machine.url()), device))
    assert [(name, check.ok) for name, check in checks.items()] == [("DMA", True), ("drive to card", True)]
    assert "MB/s" in checks["drive to card"].found


def test_the_self_test_sees_a_card_that_moves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = rig(tmp_path)
    with NearDevice.open(FaultyTransport(machine.open("&p2p=bounce"))) as device:
        monkeypatch.setattr(NearDevice, "upload", lambda *a, **k: None)
        (check,) = check_moves(parse_url(machine.url("&p2p=bounce")), device)
    assert not check.ok
    assert "came back wrong" in check.found
