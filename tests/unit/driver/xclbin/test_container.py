# SPDX-License-Identifier: Apache-2.0
"""The container of an xclbin: round trips, and damage that is named by section and offset."""

from __future__ import annotations

import os
import struct
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nearkv_driver.xclbin import Container, Design, Header, Section, SectionKind, XclbinError, read_container
from nearkv_driver.xclbin.design_file import read_design

UUID_1 = UUID(int=0x0123456789ABCDEF0123456789ABCDEF)
LENGTH_AT, COUNT_AT, TABLE_AT = 304, 448, 456
HERE = Path(__file__).parent

texts = st.text(st.characters(min_codepoint=33, max_codepoint=126), max_size=15)
sections = st.lists(
    st.builds(Section, st.integers(0, 2**32 - 1), texts, st.binary(max_size=40)).map(lambda s: replace(s, offset=0)),
    max_size=5,
)


def sample() -> bytes:
    return read_design(HERE / "design.toml").container(b"bits" * 10).pack()


def without_offsets(container: Container) -> Container:
    return replace(container, sections=tuple(replace(s, offset=0) for s in container.sections))


@given(sections, texts, st.binary(min_size=16, max_size=16), st.binary(max_size=20))
def test_what_is_packed_is_read_again(parts: list[Section], platform: str, uuid: bytes, signature: bytes) -> None:
    header = Header(platform, UUID(bytes=uuid), timestamp=7, version=(2, 13, 466), unique_id=9)
    packed = Container(header, tuple(parts), signature).pack()
    read = Container.parse(packed)
    assert without_offsets(read) == Container(header, tuple(parts), signature)
    assert read.pack() == packed


def test_the_layout_is_that_of_xclbin_h() -> None:
    """Offsets of struct axlf, written out."""
    data = Container(Header("p", UUID_1, mode=4), (Section(6, "mem", b"12345"),)).pack()
    assert data[:8] == b"xclbin2\0"
    assert struct.unpack_from("<i", data, 8) == (-1,)
    assert struct.unpack_from("<Q", data, LENGTH_AT) == (len(data),)
    assert struct.unpack_from("<H", data, LENGTH_AT + 28) == (4,)
    assert data[LENGTH_AT + 48 : LENGTH_AT + 50] == b"p\0"
    assert data[LENGTH_AT + 112 : LENGTH_AT + 128] == UUID_1.bytes
    assert struct.unpack_from("<I", data, COUNT_AT) == (1,)
    kind, name, offset, nbytes = struct.unpack_from("<I16s4xQQ", data, TABLE_AT)
    assert (kind, name[:4], offset % 8, data[offset : offset + nbytes]) == (6, b"mem\0", 0, b"12345")


@pytest.mark.parametrize(
    ("start", "text"),
    [(b"\x00\x09\x0f\xf0\x0f\xf0", "a .bit file"), (b"\x7fELF" + bytes(500), "an ELF file"), (b"", "magic b''")],
)
def test_other_files_are_named(tmp_path: Path, start: bytes, text: str) -> None:
    path = tmp_path / "a.xclbin"
    path.write_bytes(start)
    with pytest.raises(XclbinError, match=f"{path}.*offset 0.*{text}"):
        read_container(path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(XclbinError, match=r"none\.xclbin: cannot be read: No such file"):
        read_container(tmp_path / "none.xclbin")


def test_what_is_no_file_is_named_and_not_read(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.xclbin"
    os.mkfifo(pipe)  # opening it would wait for a writer
    for path in (pipe, tmp_path, Path("/dev/null")):
        with pytest.raises(XclbinError, match=f"{path}: is no regular file"):
            read_container(path)


@pytest.mark.parametrize("share", [0.1, 0.5, 0.99])
def test_a_file_that_was_cut_says_how_much_is_there(share: float) -> None:
    data = sample()
    kept = data[: int(len(data) * share)]
    with pytest.raises(XclbinError, match=rf"({len(data)} bytes, the file has {len(kept)}|ends after {len(kept)})"):
        Container.parse(kept)


def test_a_section_outside_the_file_is_named() -> None:
    data = bytearray(sample())
    struct.pack_into("<Q", data, TABLE_AT + 2 * 40 + 24, len(data))
    with pytest.raises(
        XclbinError, match=rf"section MEM_TOPOLOGY at offset {TABLE_AT + 80}: lies at {len(data)}"
    ) as caught:
        Container.parse(bytes(data), "f")
    assert (caught.value.file, caught.value.section, caught.value.offset) == ("f", "MEM_TOPOLOGY", TABLE_AT + 80)


def test_more_sections_than_fit_are_refused() -> None:
    data = bytearray(sample())
    struct.pack_into("<I", data, COUNT_AT, 900)
    with pytest.raises(XclbinError, match=f"offset {COUNT_AT}: 900 sections do not fit"):
        Container.parse(bytes(data))


@pytest.mark.parametrize("kind", ["MEM_TOPOLOGY", "CONNECTIVITY", "IP_LAYOUT"])
@pytest.mark.parametrize("count", [-1, 1000])
def test_a_count_that_does_not_fit_names_the_section(kind: str, count: int) -> None:
    container = Container.parse(sample())
    changed = tuple(
        replace(s, data=struct.pack("<i", count) + s.data[4:]) if s.label == kind else s for s in container.sections
    )
    with pytest.raises(XclbinError, match=f"section {kind} at offset [0-9]+: {count} entries"):
        Design.of(replace(container, sections=changed))


def test_a_connection_to_nothing_is_refused() -> None:
    container = Container.parse(sample())
    link = container.section(SectionKind.CONNECTIVITY)
    assert link is not None
    bad = link.data[:12] + struct.pack("<i", 7) + link.data[16:]
    changed = tuple(replace(s, data=bad) if s.kind == link.kind else s for s in container.sections)
    with pytest.raises(XclbinError, match=r"section CONNECTIVITY.*bank=7"):
        Design.of(replace(container, sections=changed))


@settings(max_examples=300)
@given(st.data())
def test_damage_never_raises_anything_else(data: st.DataObject) -> None:
    damaged = bytearray(sample())
    for at in data.draw(st.lists(st.integers(0, len(damaged) - 1), min_size=1, max_size=4)):
        damaged[at] = data.draw(st.integers(0, 255))
    del damaged[data.draw(st.integers(0, len(damaged))) :]
    with suppress(XclbinError):
        Design.of(Container.parse(bytes(damaged)))
