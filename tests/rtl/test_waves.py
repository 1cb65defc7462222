# SPDX-License-Identifier: Apache-2.0
"""Waveforms of simulated cards: files that hold every half cycle, and what is said when they cannot be written."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from nearkv.kvstore import KVStore
from nearkv.waveforms import with_waves
from nearkv_driver.device import NearDevice
from nearkv_driver.errors import DriverError, TransportUnavailable
from nearkv_emulation import hw_emu
from nearkv_emulation.rtl_build import ToolMissing, require_headers

from tests.support.cards import job_over
from tests.support.rtl_cards import SMALL_RTL, rtl_device
from tests.support.rtl_tools import needs_verilator, patient
from tests.support.stores import layout

pytestmark = [needs_verilator, patient]


@pytest.fixture(autouse=True)
def _headers() -> None:
    try:
        require_headers()
    except ToolMissing as missing:
        pytest.skip(str(missing))


def header(file: Path) -> tuple[int, int, int]:
    """First and last time in ps, and how many signals, of an FST file."""
    data = file.read_bytes()
    assert data[0] == 0
    assert int.from_bytes(data[1:9], "big") == 329
    start, end, variables = (int.from_bytes(data[at : at + 8], "big") for at in (9, 17, 49))
    assert b"ap_clk" in data
    return start, end, variables


def test_a_file_of_a_list(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """From the first cycle after the reset to the last one; the simulator has nothing to complain of."""
    file = tmp_path / "a & b.fst"
    with rtl_device(f"&clock=250M&wave={str(file).replace('&', '%26')}") as (device, card):
        device.attend([job_over(None)])
        cycles = card.rtl.cycles
    start, end, variables = header(file)
    assert start == 20 * 4000
    assert end == cycles * 4000 - 2000
    assert variables > 1000
    assert tuple(capfd.readouterr()) == ("", "")


def test_every_card_of_a_store_has_its_file(tmp_path: Path) -> None:
    urls = with_waves(["hw_emu:0?dram=16M", "hw_emu:1?dram=16M"], tmp_path / "run.fst")
    with KVStore.open(layout(layers=1), urls) as store:
        sequence = store.add_sequence()
        rows = np.random.default_rng(1).normal(size=(1, 4, 1, 64))
        new = rows[:, :2].astype(np.float16)
        store.attend(0, [sequence], rows.astype(np.float32), new, new, scale=0.1)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run.0.fst", "run.1.fst"]
    assert header(tmp_path / "run.0.fst")[1] > 1_000_000
    assert header(tmp_path / "run.1.fst")[1] > 1_000_000


def test_a_file_that_the_system_refuses_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(TransportUnavailable, match=r"waveform file /proc/run\.fst: No such file or directory"):
        NearDevice.open(f"{SMALL_RTL}&wave=/proc/run.fst")


def test_a_disk_that_fills_up_ends_the_run_before_the_writer_ends_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with rtl_device(f"&wave={tmp_path}/run.fst") as (device, _):
        left = type("Usage", (), {"free": (256 << 20) - 1})
        monkeypatch.setattr(hw_emu.shutil, "disk_usage", lambda folder: left)
        with pytest.raises(DriverError, match=r"run\.fst: 268435455 bytes are left on its disk"):
            device.attend([job_over(None)])
        with pytest.raises(DriverError, match=r"open it again"):
            device.attend([job_over(None)])
