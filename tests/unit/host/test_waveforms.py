# SPDX-License-Identifier: Apache-2.0
"""Which cards write waveforms, and where."""

from __future__ import annotations

from pathlib import Path

import pytest
from nearkv.errors import UserError
from nearkv.waveforms import with_waves
from nearkv_driver.registry import parse_url


def files(urls: tuple[str, ...]) -> list[str]:
    return [parse_url(url).option("wave", "") for url in urls]


def test_one_card_writes_the_file_itself(tmp_path: Path) -> None:
    urls = with_waves(["sw_emu:0", "hw_emu:1?dram=1G"], tmp_path / "run.fst")
    assert files(urls) == ["", f"{tmp_path}/run.fst"]
    assert urls[0] == "sw_emu:0"
    assert urls[1].startswith("hw_emu:1?dram=1G&wave=")


def test_several_cards_write_a_file_each_named_by_their_place(tmp_path: Path) -> None:
    urls = with_waves(["hw_emu:a", "sw_emu:0", "hw_emu:b"], tmp_path / "a.run.fst")
    assert files(urls) == [f"{tmp_path}/a.run.0.fst", "", f"{tmp_path}/a.run.2.fst"]
    assert files(with_waves(["hw_emu:a", "hw_emu:b"], tmp_path / "run")) == [f"{tmp_path}/run.0", f"{tmp_path}/run.1"]


@pytest.mark.parametrize("name", ["a&b=c.fst", "100%.fst", "mit leer.fst", "%26.fst", "ä?.fst"])
def test_any_file_name_survives_the_url(tmp_path: Path, name: str) -> None:
    assert files(with_waves(["hw_emu:0"], tmp_path / name)) == [f"{tmp_path}/{name}"]


def test_there_must_be_a_card_that_writes(tmp_path: Path) -> None:
    with pytest.raises(
        UserError, match=r"run\.fst: only hw_emu cards write waveforms; the cards are sw_emu:0, sw_emu:1"
    ):
        with_waves(["sw_emu:0", "sw_emu:1"], tmp_path / "run.fst")


def test_a_card_has_one_file(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="names a waveform file already"):
        with_waves([f"hw_emu:0?wave={tmp_path}/other.fst"], tmp_path / "run.fst")


def test_a_file_that_cannot_be_written_is_told_before_the_work(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="No such file or directory"):
        with_waves(["hw_emu:0"], tmp_path / "gone" / "run.fst")
    with pytest.raises(UserError, match="no regular file"):
        with_waves(["hw_emu:0"], tmp_path)
    with pytest.raises(UserError, match="no regular file"):
        with_waves(["hw_emu:0"], Path("/dev/null"))
    assert Path("/dev/null").exists()


def test_bad_urls_are_told_as_they_were_given(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="'hw_emu:0\\?nosense'"):
        with_waves(["hw_emu:0?nosense"], tmp_path / "run.fst")
