# SPDX-License-Identifier: Apache-2.0
"""Cards, drives and their bridges as sysfs shows them, and what follows for P2P."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from nearkv_driver.p2p import P2p, card_reason, own_drives, p2p_state, volume_reason
from nearkv_driver.sysfs import Sysfs

from tests.support.sysfs_trees import ENABLED, GIB, VBNV, Tree, smartssd

BDF = "0000:3e:00.1"
OWN, OTHER = os.makedev(259, 1), os.makedev(259, 90)


def four(root: Path) -> Tree:
    """Four SmartSSDs whose cards, drives and buses are numbered in four different orders, behind one chassis switch."""
    tree = Tree(root)
    chassis = ("0000:00:01.0", "0000:01:00.0")
    for bus, name, device in ((0x20, "nvme3", 1), (0x30, "nvme1", 2), (0x40, "nvme2", 3), (0x10, "nvme0", 4)):
        switch = (*chassis, f"0000:02:{bus >> 3:02x}.0", f"0000:{bus:02x}:00.0")
        path = (*switch, f"0000:{bus + 1:02x}:01.0", f"0000:{bus + 2:02x}:00.0")
        tree.drive(name, *path, device=os.makedev(259, device))
        tree.card(*switch, f"0000:{bus + 1:02x}:00.0", f"0000:{bus + 3:02x}:00.1")
    return tree


def test_one_smartssd(tmp_path: Path) -> None:
    sysfs = Sysfs(smartssd(tmp_path, OWN).root)
    assert [(c.bdf, c.driver, c.user) for c in sysfs.cards()] == [
        ("0000:3e:00.0", "xclmgmt", False),
        (BDF, "xocl", True),
    ]
    assert sysfs.cards()[1].shell == VBNV
    assert own_drives(sysfs, BDF) == "nvme0 (0000:3d:00.0)"
    assert card_reason(sysfs, BDF, "xilinx_u2_gen3x4_xdma_gc_2_202110_1", "bank0") == ""
    assert volume_reason(sysfs, BDF, Path("/mnt/kv"), OWN) == ""
    assert sysfs.modules() == {"xocl": "2.13.466,abc", "xclmgmt": "2.13.466,abc"}


def test_four_smartssds_are_paired_by_their_bridge(tmp_path: Path) -> None:
    sysfs = Sysfs(four(tmp_path).root)
    cards = [card.bdf for card in sysfs.cards() if card.user]
    assert [own_drives(sysfs, bdf).partition(" ")[0] for bdf in cards] == ["nvme0", "nvme3", "nvme1", "nvme2"]
    assert volume_reason(sysfs, "0000:23:00.1", Path("/mnt/kv"), os.makedev(259, 1)) == ""
    said = volume_reason(sysfs, "0000:23:00.1", Path("/mnt/kv"), os.makedev(259, 2))
    assert "/mnt/kv lies on nvme1 (0000:32:00.0), which is not a drive of the card 0000:23:00.1" in said
    assert "name a folder on nvme3 (0000:22:00.0), the drive of this card, with ssd=FOLDER" in said
    assert "p2p=bounce" in said


def test_a_folder_on_another_drive_or_on_none(tmp_path: Path) -> None:
    sysfs = Sysfs(smartssd(tmp_path / "sys", OWN).root)
    assert "lies on nvme1" in volume_reason(sysfs, BDF, tmp_path, OTHER)
    assert "not on NVMe drives alone" in volume_reason(sysfs, BDF, tmp_path, os.makedev(0, 99))
    assert "names no folder" in volume_reason(sysfs, BDF, None)


def test_partitions_and_volumes_of_several_drives(tmp_path: Path) -> None:
    tree = smartssd(tmp_path / "sys", OWN)
    upstream = ("0000:00:01.1", "0000:3b:00.0")
    own = tmp_path / "sys/class/nvme/nvme0/nvme0n1"
    other = tmp_path / "sys/class/nvme/nvme1/nvme1n1"
    part = own.resolve() / "nvme0n1p1"
    part.mkdir()
    (part / "partition").write_text("1\n")
    tree.block(os.makedev(259, 11), part)
    sysfs = Sysfs(tree.root)
    assert volume_reason(sysfs, BDF, tmp_path, os.makedev(259, 11)) == ""
    for number, parts in ((1, [part]), (2, [part, other])):
        made = tmp_path / "sys/devices/virtual/block" / f"dm-{number}"
        (made / "slaves").mkdir(parents=True)
        for slave in parts:
            (made / "slaves" / slave.name).symlink_to(slave.resolve())
        tree.block(os.makedev(253, number), made)
    assert volume_reason(sysfs, BDF, tmp_path, os.makedev(253, 1)) == ""
    assert "lies on nvme1" in volume_reason(sysfs, BDF, tmp_path, os.makedev(253, 2))
    assert upstream[1] in sysfs.bridges(BDF)


def test_a_namespace_with_several_paths(tmp_path: Path) -> None:
    """With native multipath the block device has no PCI path of its own."""
    tree = smartssd(tmp_path)
    subsystem = tmp_path / "devices/virtual/nvme-subsystem/nvme-subsys0"
    (subsystem / "nvme0n1").mkdir(parents=True)
    (subsystem / "nvme0").symlink_to((tmp_path / "class/nvme/nvme0").resolve())
    tree.block(OWN, subsystem / "nvme0n1")
    assert [drive.name for drive in Sysfs(tmp_path).drives_of(OWN)] == ["nvme0"]


def test_a_card_without_a_drive_below_its_bridges(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    tree.card("0000:00:01.0", BDF)
    tree.drive("nvme0", "0000:00:02.0", "0000:41:00.0", device=OWN)
    said = volume_reason(Sysfs(tmp_path), BDF, Path("/mnt/kv"), OWN)
    assert f"no NVMe drive shares a PCI bridge with {BDF}" in said


@pytest.mark.parametrize(
    ("config", "host_memory", "state", "found", "fix"),
    [
        (ENABLED, True, P2p.ENABLED, "BAR of 4 GiB", ""),
        (ENABLED, None, P2p.ENABLED, "BAR of 4 GiB", ""),
        ({**ENABLED, "remap": 4 * GIB}, True, P2p.ENABLED, "BAR of 4 GiB", ""),
        ({**ENABLED, "bar": GIB // 4, "rbar": GIB // 4}, True, P2p.DISABLED, "256 MiB, 4 GiB", "--p2p enable"),
        ({**ENABLED, "bar": GIB // 4}, True, P2p.REBOOT, "4 GiB after the next start", "reboot warm"),
        ({**ENABLED, "remap": 2 * GIB}, True, P2p.REMAPPER, "set to 2 GiB", "disable and enable"),
        (ENABLED, False, P2p.REBOOT, "the host has no memory", "Above 4G"),
        ({"exp_bar": 4 * GIB}, True, P2p.UNSUPPORTED, "no P2P BAR", "flash a shell"),
        (None, None, P2p.NO_DRIVER, f"no P2P file of {BDF}", "modprobe xocl"),
    ],
)
def test_states_of_p2p(
    config: dict[str, int] | None, host_memory: bool | None, state: P2p, found: str, fix: str, tmp_path: Path
) -> None:
    """A SmartSSD has no remapper: that it is missing is no fault."""
    sysfs = Sysfs(smartssd(tmp_path, OWN, config, host_memory).root)
    seen = p2p_state(sysfs.p2p_config(BDF), BDF, sysfs.p2p_enabled(BDF))
    assert seen.state is state
    assert found in seen.found
    assert fix in seen.fix
    said = card_reason(sysfs, BDF, "xilinx_u2_gen3x4_xdma_gc_2_202110_1", "bank0")
    assert said == "" if state is P2p.ENABLED else f"P2P is {state.value}" in said


def test_a_u280_has_p2p_for_its_hbm_only(tmp_path: Path) -> None:
    sysfs = Sysfs(smartssd(tmp_path, OWN).root)
    assert "link it to HBM" in card_reason(sysfs, BDF, "xilinx_u280_xdma_201920_3", "DDR[0]")
    assert card_reason(sysfs, BDF, "xilinx_u280_xdma_201920_3", "HBM[0]") == ""


def test_no_card(tmp_path: Path) -> None:
    sysfs = Sysfs(tmp_path)
    assert (sysfs.cards(), sysfs.drives(), sysfs.modules(), sysfs.iommu()) == ([], [], {}, False)
    assert sysfs.nearest_drives(BDF) == []
    assert sysfs.p2p_config(BDF) is None
