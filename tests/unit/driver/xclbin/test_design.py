# SPDX-License-Identifier: Apache-2.0
"""Designs: to a file and back, what cannot be linked, and the kernel as kernel.xml says it."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import pytest
from nearkv_driver import regmap
from nearkv_driver.xclbin import Bank, Container, Design, Kernel, SectionKind, XclbinError, nearkv_kernel
from nearkv_driver.xclbin.design_file import read_design
from nearkv_driver.xclbin.kernel import parse_xml
from nearkv_driver.xclbin.tables import Protocol, read_units

FILE = Path(__file__).parent / "design.toml"


def test_a_design_comes_back_from_its_file() -> None:
    design = read_design(FILE)
    assert Design.of(Container.parse(design.container(b"bits").pack())) == design


def test_the_same_design_gives_the_same_file_and_another_one_another_uuid() -> None:
    design = read_design(FILE)
    first, again, other = (design.container(bits) for bits in (b"a", b"a", b"b"))
    assert first.pack() == again.pack()
    assert first.header.uuid != other.header.uuid


def test_units_carry_protocol_and_interrupt() -> None:
    design = read_design(FILE)
    two = replace(design, units=(*design.units, replace(design.units[0], name="second", base=0x1810000)))
    section = two.container(b"").section(SectionKind.IP_LAYOUT)
    assert section is not None
    units = read_units(section, "f")
    assert [(u.name, u.protocol, u.interrupt) for u in units] == [
        ("nearkv_attend:nearkv_attend_1", Protocol.AP_CTRL_CHAIN, 0),
        ("nearkv_attend:second", Protocol.AP_CTRL_CHAIN, 1),
    ]


def test_the_metadata_names_kernels_as_kernel_xml_does() -> None:
    """PYNQ does not read a file without it."""
    section = read_design(FILE).container(b"").section(SectionKind.EMBEDDED_METADATA)
    assert section is not None
    (kernel,) = parse_xml(section.data, ValueError).iter("kernel")
    (ours,) = parse_xml(nearkv_kernel().xml(), ValueError).iter("kernel")
    assert kernel.get("vlnv") == ours.get("vlnv") == "nearkv:kernel:nearkv_attend:1.0"


def test_our_kernel_is_that_of_the_register_map() -> None:
    kernel = nearkv_kernel()
    assert kernel.name == regmap.KERNEL
    assert [(a.name, a.offset) for a in kernel.arguments] == [
        ("kv", regmap.ADDR_KV),
        ("ctl", regmap.ADDR_CTL),
        ("out", regmap.ADDR_OUT),
    ]
    assert {p.data_bits for p in kernel.ports if p.mode == "master"} == {512}


def test_kernel_xml_is_read_back() -> None:
    kernel = nearkv_kernel()
    root = ET.fromstring(kernel.xml())
    element = root.find("kernel")
    assert element is not None
    assert Kernel.of(element, ValueError) == kernel


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda d: replace(d, banks=(*d.banks, d.banks[0])), "bank 'bank0' stands twice"),
        (lambda d: replace(d, banks=(*d.banks, Bank("x", 0x4000001000, 4096))), "'x' begins at .* inside 'bank0'"),
        (lambda d: replace(d, banks=(Bank("bank0", 0, 100),)), "bank 'bank0' of 100 bytes"),
        (lambda d: replace(d, banks=(Bank("a bank with a long name", 0, 1024),)), "at most|1 to 15"),
        (lambda d: replace(d, kernels=()), "of kernel 'nearkv_attend', which"),
        (lambda d: replace(d, units=(replace(d.units[0], banks={"kv": "bank0"}),)), r"connects \['kv'\]"),
        (lambda d: replace(d, units=(replace(d.units[0], name="n" * 64),)), "at most 63"),
    ],
)
def test_what_cannot_be_linked_is_refused(change: object, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        change(read_design(FILE)).container(b"")  # type: ignore[operator]


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        ('mode = "hw"', 'mode = "fast"', "mode = 'fast'; allowed are hw, hw_emu, sw_emu"),
        ("mhz = 300", "mhz = -1", r"clocks\[0\]: mhz = -1"),
        ("mhz = 300", "mhz = true", r"clocks\[0\]: mhz = True; int is expected"),
        ('tag = "bank0"', 'tags = "bank0"', r"banks\[0\]: tag is missing"),
        ("used = false", "used = false\ncolour = 1", r"banks\[1\]: unknown key 'colour'"),
        ('kv = "bank0"', 'kv = "bank9"', "kv goes to bank 'bank9'"),
        ("platform =", "platform", "no TOML"),
        ('mode = "hw"', 'kernels = ["other"]', "'other' is neither"),
        ('mode = "hw"', 'kernels = ["other.xml"]', "other.xml: cannot be read"),
    ],
)
def test_a_bad_description_is_refused_by_key(tmp_path: Path, old: str, new: str, text: str) -> None:
    path = tmp_path / "d.toml"
    path.write_text(FILE.read_text().replace(old, new, 1))
    with pytest.raises(XclbinError, match=text):
        read_design(path)


def test_a_kernel_of_someone_else(tmp_path: Path) -> None:
    kernel = replace(nearkv_kernel(), name="vadd", protocol=Protocol.AP_CTRL_HS)
    (tmp_path / "vadd.xml").write_text(kernel.xml())
    text = FILE.read_text().replace('mode = "hw"', 'mode = "hw_emu"\nkernels = ["vadd.xml"]')
    (tmp_path / "d.toml").write_text(text.replace('name = "nearkv_attend_1"', 'kernel = "vadd"\nname = "vadd_1"'))
    design = read_design(tmp_path / "d.toml")
    assert design.kernels == (kernel,)
    assert design.units[0].kernel == "vadd"


def test_entities_are_not_expanded() -> None:
    bomb = '<!DOCTYPE a [<!ENTITY b "bbbb">]><a>&b;</a>'
    with pytest.raises(ValueError, match="document type"):
        parse_xml(bomb, ValueError)
