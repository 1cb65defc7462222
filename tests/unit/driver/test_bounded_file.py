# SPDX-License-Identifier: Apache-2.0
"""Files that people name: whole, or refused with size and limit; what has no end is not begun."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from nearkv_driver import bounded_file
from nearkv_driver.bitstream.errors import BuildRefused
from nearkv_driver.bitstream.link_file import read_link
from nearkv_driver.bounded_file import TEXT_NBYTES_MAX, XCLBIN_NBYTES_MAX, FileRefused, read_file
from nearkv_driver.xclbin import XclbinError, read_container
from nearkv_driver.xclbin.design_file import read_design

LEAST = b'kernels = ["big.xml"]'


@pytest.mark.parametrize("nbytes", [0, 1, 1000])
def test_a_file_up_to_the_limit_is_read_whole(tmp_path: Path, nbytes: int) -> None:
    (tmp_path / "a").write_bytes(b"x" * nbytes)
    assert read_file(tmp_path / "a", 1000) == b"x" * nbytes


def test_a_larger_one_is_refused_with_size_and_limit(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(bytes(1001))
    with pytest.raises(FileRefused, match="has 1,001 bytes; at most 1,000 are read"):
        read_file(tmp_path / "a", 1000)


def test_a_file_that_tells_no_size_is_bounded_too() -> None:
    assert read_file("/proc/self/stat", 10_000).startswith(b"%d " % os.getpid())
    with pytest.raises(FileRefused, match="more than 10 bytes"):
        read_file("/proc/self/stat", 10)


@pytest.mark.parametrize("kind", ["pipe", "folder", "/dev/zero", "/dev/null"])
def test_what_is_no_file_is_refused_at_once(tmp_path: Path, kind: str) -> None:
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(FileRefused, match="is no regular file"):
        read_file(tmp_path / kind, 1000)  # an absolute name replaces the folder


@pytest.mark.parametrize(("name", "why"), [("none", "No such file"), ("a\0b", "null"), ("x" * 300, "too long")])
def test_what_cannot_be_opened_says_why(tmp_path: Path, name: str, why: str) -> None:
    with pytest.raises(FileRefused, match=f"cannot be read: .*{why}"):
        read_file(tmp_path / name, 1000)


def test_a_pipe_that_takes_the_place_of_a_file_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(tmp_path / "pipe")
    found = os.stat(__file__)
    monkeypatch.setattr(bounded_file.os, "stat", lambda path: found)
    with pytest.raises(FileRefused, match="is no regular file"):
        read_file(tmp_path / "pipe", 1000)


def test_a_description_that_is_nested_without_end_is_refused(tmp_path: Path) -> None:
    (tmp_path / "deep.toml").write_text("a = " + "[" * 100_000)
    with pytest.raises(XclbinError, match=r"deep\.toml: no TOML"):
        read_design(tmp_path / "deep.toml")


@pytest.fixture
def big(tmp_path: Path) -> Path:
    """More than any limit, and no room on the disk."""
    with (tmp_path / "big.xml").open("wb") as file:
        file.truncate(XCLBIN_NBYTES_MAX + 1)
    return tmp_path / "big.xml"


def test_every_reader_names_the_file_its_size_and_the_limit(big: Path) -> None:
    said = f"{XCLBIN_NBYTES_MAX + 1:,} bytes; at most {TEXT_NBYTES_MAX:,} are read"
    with pytest.raises(XclbinError, match=f"{big}: has {XCLBIN_NBYTES_MAX + 1:,} bytes; at most {XCLBIN_NBYTES_MAX:,}"):
        read_container(big)
    with pytest.raises(XclbinError, match=f"{big}: has {said}"):
        read_design(big)
    with pytest.raises(BuildRefused, match=f"{big} has {said}"):
        read_link(big)
    design = big.parent / "design.toml"
    design.write_bytes(LEAST)
    with pytest.raises(XclbinError, match=f"{big}: has {said}"):
        read_design(design)
