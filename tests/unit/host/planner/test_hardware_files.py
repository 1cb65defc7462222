# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
import os
from importlib.resources import files
from pathlib import Path

import pytest
from nearkv.errors import UserError
from nearkv.planner.compute import weights_s
from nearkv.planner.hardware import Card, Drive, Gpu, Host
from nearkv.planner.hardware_files import load, names

GOOD = 'kind = "drive"\ncapacity = "2 TB"\nread = "7 GB/s"\nwrite = "5 GB/s"\n'


def test_every_packaged_description_loads() -> None:
    for kind in (Drive, Card, Gpu, Host):
        found = names(kind)
        assert found
        for name in found:
            assert load(name, kind).name == name


def test_every_packaged_figure_says_where_it_comes_from() -> None:
    """Behind it, or above the lists of a table."""
    for file in files("nearkv.planner").joinpath("hardware").iterdir():
        figures, _, tables = file.read_text(encoding="utf-8").partition("\n\n")
        for line in figures.splitlines()[1:]:
            name = line.partition(" ")[0]
            assert name in ("#", "kind", "drive") or "  # " in line, f"{file.name}: {line}"
        assert not tables or tables.startswith("# ")


def test_free_constants_are_the_same_in_every_file() -> None:
    """They were fitted once, for all (docs/validation.md)."""
    hosts, gpus = ([load(name, kind) for name in names(kind)] for kind in (Host, Gpu))
    for values in ([(h.attention, h.file_rate, h.page_copy) for h in hosts], [gpu.efficiency for gpu in gpus]):
        assert len(values) > 1
        assert len(set(values)) == 1


def test_a_file_of_the_user(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(GOOD + 'p2p_read = "6 GB/s"\np2p_write = "4 GB/s"\n')
    drive = load(str(path), Drive)
    assert (drive.name, drive.read, drive.p2p_write) == ("mine", 7e9, 4e9)
    card = tmp_path / "card.toml"
    card.write_text(
        'kind = "card"\ndrive = "mine.toml"\nmemory = "8 GiB"\nmemory_rate = "38 GB/s"\nclock = "250 MHz"\n'
        'link = "12 GB/s"\nlaunch = "50 us"\ndma = "30 us"\n'
    )
    assert load(str(card), Card).drive == drive


@pytest.mark.parametrize(
    ("text", "named"),
    [
        (GOOD + 'speed = "9 GB/s"\n', "unknown parameter speed; known: capacity"),
        (GOOD.replace('read = "7 GB/s"\n', ""), "read missing"),
        (GOOD.replace("7 GB/s", "-7 GB/s"), "read = -7e\\+09 B/s is impossible"),
        (GOOD.replace("7 GB/s", "0 GB/s"), "read = 0 B/s is impossible"),
        (GOOD.replace("7 GB/s", "1e-30 GB/s"), "read = 1e-21 B/s is impossible; 1e-12 B/s is the least above 0"),
        (GOOD + '[by_size]\nread = [["4 KiB", "1e-320 GB/s"]]', "sizes and rates must be positive"),
        (GOOD.replace("7 GB/s", "7"), "read is '7'; a rate such as"),
        (GOOD.replace("7 GB/s", "nan GB/s"), "read = nan B/s is impossible"),
        (GOOD.replace('"drive"', '"card"'), "kind is 'card'; 'drive' is expected"),
        (GOOD + "endurance = 7\n", "endurance is 7; a size such as"),
        (GOOD + "by_size = 3\n", "by_size holds two lists"),
        (GOOD + '[by_size]\nread = [["4 KiB"]]\n', "by_size.read is a list"),
        (GOOD + '[by_size]\nread = [["8 KiB", "1 GB/s"], ["4 KiB", "2 GB/s"]]\n', "sizes must ascend"),
        (GOOD + '[by_size]\nread = [["4 KiB", "0 GB/s"]]\n', "must be positive"),
        ("kind = ", "hardware file"),
        ("", "kind is None"),
    ],
)
def test_bad_files_are_refused_by_name(tmp_path: Path, text: str, named: str) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(text)
    with pytest.raises(UserError, match=named):
        load(str(path), Drive)


@pytest.mark.timeout(20)
def test_what_is_no_file_is_refused_without_reading(tmp_path: Path) -> None:
    """A pipe that nobody writes to would wait for ever."""
    os.mkfifo(tmp_path / "pipe.toml")
    (tmp_path / "folder.toml").mkdir()
    (tmp_path / "device.toml").symlink_to("/dev/zero")
    (tmp_path / "large.toml").write_bytes(b"#" * ((1 << 20) + 1))
    for name in ("pipe", "folder", "device"):
        with pytest.raises(UserError, match=f"hardware file .*{name}.toml is no regular file"):
            load(str(tmp_path / f"{name}.toml"), Drive)
    with pytest.raises(UserError, match=r"large.toml has 1,048,577 bytes; at most 1,048,576 are read"):
        load(str(tmp_path / "large.toml"), Drive)
    with pytest.raises(UserError, match="cannot be read"):
        load("nul\0.toml", Drive)


GPU = (
    'kind = "gpu"\ncompute = "40 GFLOP/s"\nefficiency = "1"\nmemory = "0 B"\nmemory_rate = "5 GB/s"\nlink = "5 GB/s"\n'
    'layer_overhead = "1 ms"\nin_host_memory = true\n'
)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("by_rows = 3\n", r'by_rows holds two lists of \[4, "0.05 GB/s"\] pairs, layer and head'),
        ("[by_rows]\nlayers = []\n", "by_rows holds two lists"),
        ("[by_rows]\nlayer = [[1]]\n", "by_rows.layer is a list"),
        ('[by_rows]\nlayer = [["one", "5 GB/s"]]\n', "by_rows.layer is 'one'; a number such as"),
        ("[by_rows]\nlayer = [[1, 5]]\n", "by_rows.layer is 5; a rate such as '3.0 GB/s'"),
        ('[by_rows]\nlayer = [[2, "5 GB/s"]]\n', "by_rows.layer: rows are 2; whole numbers that ascend from 1"),
        ('[by_rows]\nlayer = [[1, "5 GB/s"], [1, "4 GB/s"]]\n', "by_rows.layer: rows are 1, 1; whole"),
        ('[by_rows]\nlayer = [[1, "5 GB/s"], [4, "4 GB/s"], [3, "4 GB/s"]]\n', "rows are 1, 4, 3; whole"),
        ('[by_rows]\nlayer = [[1, "5 GB/s"], [1.5, "4 GB/s"]]\n', "rows are 1, 1.5; whole"),
        ('[by_rows]\nlayer = [[1, "5 GB/s"], [9e99, "4 GB/s"]]\n', "rows are 1, 9e.99; whole .* to 1048576"),
        ('[by_rows]\nlayer = [[nan, "5 GB/s"]]\n', "rows are nan; whole"),
        ('[by_rows]\nlayer = [[1, "0 GB/s"]]\n', "by_rows.layer: 0 B/s at 1 rows is impossible"),
        ('[by_rows]\nlayer = [[1, "nan GB/s"]]\n', "by_rows.layer: nan B/s at 1 rows is impossible"),
        ('[by_rows]\nhead = [[1, "-3 GB/s"]]\nlayer = [[1, "3 GB/s"]]\n', "by_rows.head: -3e.09 B/s at 1 rows"),
        ('[by_rows]\nhead = [[1, "3 GB/s"]]\n', "by_rows.head stands without by_rows.layer"),
    ],
)
def test_bad_tables_of_rows_are_refused(tmp_path: Path, text: str, named: str) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(GPU + text)
    with pytest.raises(UserError, match=named):
        load(str(path), Gpu)


def test_products_of_few_rows_take_what_was_measured(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(GPU + '[by_rows]\nlayer = [[1, "4 GB/s"], [2, "2 GB/s"], [4, "4 GB/s"]]\n')
    gpu = load(str(path), Gpu)
    seconds = [weights_s(gpu, rows, 2e9) for rows in (1, 1.5, 2, 3, 4, 5, 40)]
    # The fifth and later: no faster than four rows, and 2 x rows x weights at 40 GFLOP/s from the eighth row on.
    assert seconds == pytest.approx([1, 1.5, 2, 1.5, 1, 1, 4])
    assert weights_s(gpu, 2, 2e9, head=True) == pytest.approx(2), "without a list of its own the head is like a layer"
    path.write_text(GPU + '[by_rows]\nlayer = [[1, "4 GB/s"]]\nhead = [[1, "2 GB/s"]]\n')
    assert weights_s(load(str(path), Gpu), 1, 2e9, head=True) == pytest.approx(2)
    path.write_text(GPU)
    assert weights_s(load(str(path), Gpu), 2, 2e9) == pytest.approx(0.8), "the roofline"


def test_what_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no drive is called 'nosuch'; known: .*pm9a3"):
        load("nosuch", Drive)
    with pytest.raises(UserError, match="No such file"):
        load(str(tmp_path / "no.toml"), Drive)
    with pytest.raises(UserError, match="no card is called 'pm9a3'"):
        load("pm9a3", Card)


def test_a_card_needs_a_drive_that_the_fpga_reaches(tmp_path: Path) -> None:
    path = tmp_path / "card.toml"
    path.write_text(
        'kind = "card"\ndrive = "gen5-nvme"\nmemory = "8 GiB"\nmemory_rate = "38 GB/s"\nclock = "250 MHz"\n'
        'link = "12 GB/s"\nlaunch = "50 us"\ndma = "30 us"\n'
    )
    with pytest.raises(UserError, match="'gen5-nvme' has no p2p_read"):
        load(str(path), Card)


def test_the_emulated_drive_has_the_same_figures() -> None:
    """One fact, two users: the emulated SmartSSD's timing and the planner's."""
    from nearkv_emulation.drive_model import SMARTSSD

    drive = load("smartssd-drive", Drive)
    assert (drive.p2p_read, drive.p2p_write, drive.endurance) == (
        SMARTSSD.read.rate,
        SMARTSSD.write.rate,
        SMARTSSD.endurance_nbytes,
    )
    for nbytes in (512, 4096, 5000, 65536, 1 << 20, 1 << 28):
        for write, direction in ((False, SMARTSSD.read), (True, SMARTSSD.write)):
            mine = drive.request_s(nbytes, 1, peer=True, write=write)
            assert math.isclose(mine, direction.alone_s(nbytes), rel_tol=1e-9)


def test_many_requests_in_flight_reach_the_rate() -> None:
    drive = load("smartssd-drive", Drive)
    alone = [drive.request_s(1 << 16, in_flight, peer=True) for in_flight in (1, 2, 4, 16)]
    assert alone == sorted(alone, reverse=True)
    assert math.isclose(alone[-1], (1 << 16) / 3.0e9)
