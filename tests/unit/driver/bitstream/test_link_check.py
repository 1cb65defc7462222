# SPDX-License-Identifier: Apache-2.0
"""Link configurations: what we write is sound, and each way to damage one is found at its line."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nearkv_driver.bitstream import link_files
from nearkv_driver.bitstream.errors import BuildRefused
from nearkv_driver.bitstream.link_check import check_link
from nearkv_driver.bitstream.link_file import read_link
from nearkv_driver.bitstream.link_text import link_text
from nearkv_driver.bitstream.platforms import Platform, load_platforms
from nearkv_driver.xclbin.kernel import nearkv_kernel

CARDS = load_platforms()
KERNEL = nearkv_kernel()
FOLDER = Path(__file__).parents[4] / "fpga" / "hls" / "vitis"
# Two units on a U50: nk is line 6, the first unit's sp 7 to 9, its slr 10, the second unit's sp 11 to 13, its slr 14.
SOUND = link_text(CARDS["u50"], KERNEL, 2, 300)


def errors(text: str, key: str = "u50") -> list[tuple[int, str]]:
    link, findings = check_link(text, CARDS[key], KERNEL)
    found = [(finding.line, finding.text) for finding in findings if finding.is_error]
    assert (link is None) == bool(found)
    return found


@pytest.mark.parametrize("card", CARDS.values(), ids=CARDS)
def test_what_we_write_is_sound(card: Platform) -> None:
    for cus in range(1, card.cus_max + 1):
        link, findings = check_link(link_text(card, KERNEL, cus, 250), card, KERNEL)
        assert findings == ()
        assert link is not None
        assert (len(link.units), link.frequency_mhz) == (cus, 250)
        assert [(u.tag, u.slr) for u in link.units] == [(card.tag_of(n, cus), card.slr_of(n)) for n in range(cus)]


def test_the_files_in_the_repository_are_what_we_write() -> None:
    assert link_files.main(["--check"]) == 0
    assert sorted(path.name for path in FOLDER.glob("link_*.cfg")) == sorted(f"link_{key}.cfg" for key in CARDS)


def test_a_drifted_file_and_one_of_no_card_are_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert link_files.main([], tmp_path) == 0
    assert link_files.main(["--check"], tmp_path) == 0
    (tmp_path / "link_u2.cfg").write_text("nk=nearkv_attend:1\n")
    (tmp_path / "link_u9.cfg").write_text("")
    assert link_files.main(["--check"], tmp_path) == 1
    assert [line.partition(":")[0].split()[0][-11:] for line in capsys.readouterr().err.splitlines()] == [
        "link_u2.cfg",
        "link_u9.cfg",
    ]


@pytest.mark.parametrize(
    ("old", "new", "line", "text"),
    [
        ("nk=nearkv_attend:2", "nk=vadd:2", 6, "nk= of kernel 'vadd'; the kernel is 'nearkv_attend'"),
        ("nk=nearkv_attend:2", "nk=nearkv_attend:3", 6, "counts 3 compute units and names 2"),
        ("nk=nearkv_attend:2", "nk=nearkv_attend:5", 6, "of 5 compute units; u50 takes 1 to 4"),
        ("nk=nearkv_attend:2", "nk=nearkv_attend:two", 6, "of two compute units"),
        ("nearkv_attend_1.nearkv_attend_2", "nearkv_attend_1.nearkv_attend_1", 6, "names 'nearkv_attend_1' twice"),
        ("nearkv_attend_1.nearkv_attend_2", "nearkv_attend_1.", 6, "nk= names ''; letters"),
        ("nk=nearkv_attend:2", "nk=nearkv_attend:²", 6, "of ² compute units"),
        ("nearkv_attend_1.nearkv_attend_2", "nearkv_attend_1.a-b", 6, "nk= names 'a-b'; letters"),
        ("nearkv_attend_1.nearkv_attend_2", "nearkv_attend_1." + "a" * 42, 6, "41 at most"),
        ("kernel_frequency=300", "kernel_frequency=²", 3, "is expected"),
        ("kernel_frequency=300", "kernel_frequency=" + "9" * 5000, 3, "is expected"),
        ("1.out:HBM[0:15]", "1.out:HBM[" + "9" * 5000 + "]", 9, "is no memory tag"),
        ("sp=nearkv_attend_2.kv", "sp=nearkv_attend_3.kv", 11, "sp= of 'nearkv_attend_3'; compute units are"),
        ("sp=nearkv_attend_1.kv", "sp=nearkv_attend_1.in", 7, "arguments and ports are ctl, kv, m_axi_ctl"),
        ("sp=nearkv_attend_1.ctl", "sp=nearkv_attend_1.kv", 8, "connected twice; the first one is at line 7"),
        ("1.ctl:HBM[0:15]", "1.ctl:HBM[0:7]", 8, "ctl is on HBM[0:7], the one before on HBM[0:15]"),
        ("1.out:HBM[0:15]", "1.out:HBM[16:40]", 9, "outside HBM[0:31] of u50"),
        ("1.out:HBM[0:15]", "1.out:bank0", 9, "u50 has no memory 'bank0'"),
        ("1.out:HBM[0:15]", "1.out", 9, "'' is no memory tag"),
        ("slr=nearkv_attend_1:SLR0", "slr=nearkv_attend_1:SLR2", 10, "u50 has SLR0, SLR1"),
        ("slr=nearkv_attend_1:SLR0", "slr=other:SLR0", 10, "slr= of 'other'"),
        ("slr=nearkv_attend_2:SLR1", "slr=nearkv_attend_1:SLR1", 14, "nearkv_attend_1 is placed twice"),
        ("kernel_frequency=300", "kernel_frequency=900", 3, "900 MHz; 50 to 500 MHz is allowed"),
        ("kernel_frequency=300", "kernel_frequency=1:300", 3, "MHz, or 0:MHz|1:MHz, is expected"),
        ("kernel_frequency=300", "kernel_frequency=fast", 3, "is expected"),
        ("kernel_frequency=300", "platform=xilinx_u280_xdma_201920_3", 3, "u50 is xilinx_u50_gen3x16_xdma_5_202210_1"),
        ("kernel_frequency=300", "target=hw", 3, "target= is set by the build itself"),
        ("[connectivity]", "[conectivity]", 5, "section [conectivity]; v++ knows advanced, clock"),
        ("[connectivity]", "connectivity", 5, "neither key=value nor a [section]"),
        ("slr=nearkv_attend_1:SLR0", "stream_connect=a.o:b.i", 10, "kernel nearkv_attend has no streams"),
        ("slr=nearkv_attend_1:SLR0", "spp=x", 10, "spp= in [connectivity]; known are"),
        ("kernel_frequency=300", "kernel_frequency=300\n[clock]\nfreqHz=300000000:nearkv_attend_1", 5, "[clock]"),
    ],
)
def test_damage_is_found_at_its_line(old: str, new: str, line: int, text: str) -> None:
    assert SOUND.count(old) >= 1
    found = errors(SOUND.replace(old, new, 1))
    assert any(number == line and text in words for number, words in found), found


def test_a_master_that_nobody_connects_is_found() -> None:
    text = SOUND.replace("sp=nearkv_attend_2.out:HBM[16:31]\n", "")
    assert errors(text) == [(0, "nearkv_attend_2: no sp= for out; v++ would choose a memory by itself")]


def test_two_lines_that_count_units_are_one_too_many() -> None:
    found = errors(SOUND + "nk=nearkv_attend:1\n")
    assert (15, "nk= stands twice; the first one is at line 6") in found


def test_all_errors_are_told_in_order_of_lines() -> None:
    text = SOUND.replace("1.kv:HBM[0:15]", "1.kv:x").replace("slr=nearkv_attend_2:SLR1", "slr=nearkv_attend_2:SLR7")
    assert [line for line, _ in errors(text)] == [7, 14]


def test_what_others_write_is_taken() -> None:
    """Ports by name, comments, blanks, sections of the vendor, the clock by its id, no names of units."""
    text = """
      platform=/opt/xilinx/platforms/xilinx_u280_xdma_201920_3/xilinx_u280_xdma_201920_3.xpfm   # by file
      kernel_frequency = 0:275|1:450
      [connectivity]
      nk = nearkv_attend:1   # the usual name
      sp=nearkv_attend_1.m_axi_kv:HBM[4]
      sp=nearkv_attend_1.m_axi_ctl:HBM[4]
      sp=nearkv_attend_1.out:HBM[4]
      [vivado]
      prop=run.impl_1.strategy=Performance_Explore
      [advanced]
      param=compiler.userPostSysLinkOverlayTcl=x.tcl
    """
    link, findings = check_link(text, CARDS["u280"], KERNEL)
    assert findings == ()
    assert link is not None
    assert (link.frequency_mhz, link.units[0].tag, link.units[0].slr) == (275, "HBM[4]", None)


def test_a_memory_that_no_drive_reaches_is_told_but_taken() -> None:
    text = link_text(CARDS["u280"], KERNEL, 1, 300).replace("HBM[0:15]", "DDR[0]")
    link, findings = check_link(text, CARDS["u280"], KERNEL)
    assert link is not None
    assert {(f.line, f.is_error) for f in findings} == {(7, False), (8, False), (9, False)}
    assert findings[0].at("f.cfg").startswith("f.cfg:7: warning: a drive cannot write to DDR[0] of u280 directly")


def test_a_memory_too_small_for_pages_is_refused() -> None:
    text = link_text(CARDS["u280"], KERNEL, 1, 300).replace("HBM[0:15]", "PLRAM[2]")
    assert errors(text, "u280")[0] == (7, "PLRAM[2] has 131072 bytes; pages and lists need 67108864 at least")


def test_one_die_takes_no_placement() -> None:
    text = link_text(CARDS["u2"], KERNEL, 1, 300) + "slr=nearkv_attend_1:SLR0\n"
    assert errors(text, "u2") == [(10, "u2 has one die and takes no slr=")]


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (None, "No such file"),
        (b"\xff\xfe", "not UTF-8 text at byte 0"),
        (b"#" * (1 << 20) + b"#", "at most 1,048,576"),
    ],
)
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, data: bytes | None, text: str) -> None:
    path = tmp_path / "x.cfg"
    if data is not None:
        path.write_bytes(data)
    with pytest.raises(BuildRefused, match=rf"x\.cfg.*{text}"):
        read_link(path)


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_no_text_breaks_the_checker(data: st.DataObject) -> None:
    lines = SOUND.splitlines()
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(lines) - 1))
        lines[at] = data.draw(st.text("nk=sp.:[]0123HBM|x_#\n\x00é²٣", max_size=30))
    with suppress(BuildRefused):
        check_link("\n".join(lines), CARDS["u50"], KERNEL)
