# SPDX-License-Identifier: Apache-2.0
"""What becomes of an xclbin as Vitis links it: IPs of the platform, banks that are none, arguments on several banks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from uuid import UUID

import pytest
from nearkv_driver.regmap import KERNEL
from nearkv_driver.xclbin import Container, Header, Section, SectionKind, XclbinError
from nearkv_driver.xclbin.tables import BankRow, Connection, UnitRow, pack_banks, pack_connections, pack_units
from nearkv_emulation.xrt_device import kernels
from nearkv_emulation.xrt_device.card import EmulatedBoard, Plan
from nearkv_emulation.xrt_device.model import KernelModel, UnitPlace
from nearkv_emulation.xrt_device.p2p_files import P2pFiles
from nearkv_emulation.xrt_run.design import default_design

MIB = 1 << 20
NO_REGISTERS = 0xFFFFFFFFFFFFFFFF
STREAM, HBM, BRAM = 3, 6, 7


def vitis_like(path: Path, units: Sequence[UnitRow], links: Sequence[Connection]) -> Path:
    """A file with four HBM banks that touch, a PLRAM, and a stream among the banks."""
    banks = [BankRow(HBM, True, MIB, i * MIB, f"HBM[{i}]") for i in range(4)]
    banks += [BankRow(STREAM, True, 0, 5, "dc_0"), BankRow(BRAM, False, 128 << 10, 1 << 40, "PLRAM[0]")]
    whole = default_design()
    metadata = whole.container(b"").section(SectionKind.EMBEDDED_METADATA)
    assert metadata is not None
    sections = (
        metadata,
        Section(SectionKind.MEM_TOPOLOGY, "mem", pack_banks(banks)),
        Section(SectionKind.IP_LAYOUT, "ip", pack_units(units)),
        Section(SectionKind.CONNECTIVITY, "conn", pack_connections(links)),
    )
    path.write_bytes(Container(Header("platform", UUID(int=1)), sections).pack())
    return path


class Still:
    """A unit that does nothing."""

    busy = False

    def read32(self, offset: int) -> int:
        return 0

    def write32(self, offset: int, value: int) -> None:
        return

    def advance(self, wall_s: float) -> None:
        return

    def close(self) -> None:
        return


def places(path: Path, folder: Path) -> list[UnitPlace]:
    """What the models of a file's units are given; their memory is gone, its shape is not."""
    found: list[UnitPlace] = []

    def make(place: UnitPlace) -> KernelModel:
        found.append(place)
        return Still()

    with P2pFiles([folder]) as files, EmulatedBoard(Plan.read(path), {KERNEL: make}, files):
        return found


def test_only_units_of_the_metadata_count_and_keep_their_links(tmp_path: Path) -> None:
    """Links name units by their place in the table of all IPs."""
    units = [
        UnitRow("axi_dna_0", 0x1000, 0, None),
        UnitRow(f"{KERNEL}:a", 0x180_0000, 1, 0),
        UnitRow("stream_only:s", NO_REGISTERS, 2, None),
        UnitRow(f"{KERNEL}:b", 0x181_0000, 1, 1),
    ]
    links = [Connection(0, 1, bank) for bank in range(4)]  # kv of a: all HBM
    links += [Connection(1, 1, 2), Connection(2, 1, 0), Connection(2, 1, 2)]  # out of a: two that do not touch
    links += [Connection(argument, 3, 5) for argument in range(3)]  # b: PLRAM
    found = places(vitis_like(tmp_path / "v.xclbin", units, links), tmp_path)
    assert [(place.name, place.base) for place in found] == [("a", 0x180_0000), ("b", 0x181_0000)]
    shapes = {name: [(r.base, len(r.memory)) for r in regions] for name, regions in found[0].regions.items()}
    assert shapes == {"kv": [(0, 4 * MIB)], "ctl": [(2 * MIB, MIB)], "out": [(0, MIB), (2 * MIB, MIB)]}
    assert {len(r.memory) for regions in found[1].regions.values() for r in regions} == {128 << 10}


def test_a_file_without_units_of_its_own_is_refused(tmp_path: Path) -> None:
    path = vitis_like(tmp_path / "v.xclbin", [UnitRow("axi_dna_0", 0x1000, 0, None)], [])
    with pytest.raises(XclbinError, match=r"v\.xclbin, section IP_LAYOUT: it has no compute unit that its metadata"):
        Plan.read(path)


def test_our_kernel_linked_to_no_bank_is_refused(tmp_path: Path) -> None:
    units = [UnitRow(f"{KERNEL}:a", 0x180_0000, 1, 0)]
    plan = Plan.read(vitis_like(tmp_path / "v.xclbin", units, [Connection(0, 0, 0), Connection(1, 0, 4)]))
    with (
        P2pFiles([tmp_path]) as files,
        pytest.raises(ValueError, match="unit a: its arguments ctl, out are linked to no bank of the card"),
    ):
        EmulatedBoard(plan, kernels.makers("model"), files)


def test_a_bank_that_no_page_begins_with_is_refused(tmp_path: Path) -> None:
    whole = default_design()
    design = replace(whole, banks=(replace(whole.banks[0], base=0x4000000400),))
    (tmp_path / "odd.xclbin").write_bytes(design.container(b"").pack())
    with (
        P2pFiles([tmp_path]) as files,
        pytest.raises(ValueError, match="bank bank0 begins at 0x4000000400, which is no multiple of 4096"),
    ):
        EmulatedBoard(Plan.read(tmp_path / "odd.xclbin"), kernels.makers("model"), files)


@pytest.mark.parametrize(
    ("kind", "others", "sentence"),
    [("gpu", [], "kernel 'gpu'; allowed are hls, model, rtl"), ("model", ["x=no.such:make"], "model 'x=no.such:make'")],
)
def test_makers_that_mean_nothing_are_refused(kind: str, others: list[str], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        kernels.makers(kind, others)
