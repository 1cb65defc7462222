# SPDX-License-Identifier: Apache-2.0
"""Descriptions from measured figures, what measures them, and the bad input of `nearkv calibrate`."""

from __future__ import annotations

import errno
import os
import time
from pathlib import Path
from unittest.mock import Mock

import pytest
from nearkv.cli import main
from nearkv.errors import UserError
from nearkv.models.measure import ROWS, Arithmetic, by_rows
from nearkv.models.runtime import torch_threads
from nearkv.planner.calibration import DriveSpeed, KernelSpeed, Measured, copy_rate, drive_speed, kernel_speed
from nearkv.planner.descriptions import NAMES, check_folder, write
from nearkv.planner.hardware import Card, Drive, Gpu, Host
from nearkv.planner.hardware_files import load
from nearkv.planner.models import find_model
from nearkv.planner.plan import make_plan
from nearkv.planner.report import inputs
from nearkv.planner.system import NEARKV, System, Work

from tests.support.planning import needs_simpy

MEASURED = Measured(
    DriveSpeed(1e12, 2e9, 1e9, ((4096, 1e8), (1 << 20, 1.5e9)), ((4096, 2e8), (1 << 20, 0.8e9)), True),
    5e9,
    KernelSpeed(1e9, 60e-6, 18e-6),
    Arithmetic(
        3e10, ((1, 4e9), (2, 2.5e9), (4, 3.5e9), (8, 3e9)), ((1, 4e9), (2, 1.6e9), (4, 3.2e9)), 0.5e9, 1e-3, 2e-3
    ),
)


@needs_simpy
def test_what_is_written_can_be_planned_with(tmp_path: Path) -> None:
    assert [path.name for path in write(MEASURED, tmp_path)] == list(NAMES)
    card = load(str(tmp_path / "card.toml"), Card)
    assert card.kernel_rate == 1e9
    assert card.launch == pytest.approx(2e-3 - 3 * 60e-6)
    assert card.job == pytest.approx(42e-6)
    assert load(str(tmp_path / "drive.toml"), Drive).by_size.read == ((4096, 1e8), (1 << 20, 1.5e9))
    gpu, host = load(str(tmp_path / "gpu.toml"), Gpu), load(str(tmp_path / "host.toml"), Host)
    assert host.job == pytest.approx(18e-6)
    found = make_plan(System(gpu, host, card, 1, card.drive, 1), Work(find_model("smollm2-135m"), 1024, 1), NEARKV)
    # 30 layers: 7.08 MB of weights, a layer, a call, its jobs, 1024 tokens of K and V; and 56.6 MB of head.
    layer = 7.08e6 / 4e9 + 1e-3 + (2e-3 - 3 * 60e-6) + 3 * 60e-6 + 1024 * 768 / 1e9
    assert found.step.seconds == pytest.approx(30 * layer + 56.6e6 / 4e9, rel=0.03)
    assert gpu.by_rows.layer == MEASURED.arithmetic.layer_rows
    two = make_plan(System(gpu, host, card, 1, card.drive, 1), Work(find_model("smollm2-135m"), 1024, 2), NEARKV)
    layer = 7.08e6 / 2.5e9 + 1e-3 + (2e-3 - 3 * 60e-6) + 6 * 60e-6 + 2 * 1024 * 768 / 1e9
    assert two.step.seconds == pytest.approx(30 * layer + 56.6e6 / 1.6e9, rel=0.03)
    told = dict(inputs(two))["GPU gpu"]
    assert "by_rows.layer 1 4.00 GB/s; 2 2.50 GB/s; 4 3.50 GB/s; 8 3.00 GB/s" in told
    assert "by_rows.head 1 4.00 GB/s; 2 1.60 GB/s; 4 3.20 GB/s" in told


def test_products_are_measured_by_their_rows() -> None:
    with torch_threads(1):
        found = dict(by_rows([((64, 64),)], "cpu", time.process_time))
        ticks = iter(range(10**6))
        ticking = by_rows([((64, 32),) * 2], "cpu", lambda: float(next(ticks)))
    assert tuple(found) == ROWS
    assert all(1e3 < nbytes_s < 1e13 for nbytes_s in found.values())
    assert ticking[0] == (1, 2 * 2 * 64 * 32)  # a tick each


def test_descriptions_are_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "gpu.toml").write_text("mine")
    with pytest.raises(UserError, match=r"has gpu\.toml; give another one"):
        check_folder(tmp_path)
    with pytest.raises(UserError, match=r"Not a directory|File exists"):
        check_folder(tmp_path / "gpu.toml")


def test_a_file_system_without_direct_io_is_measured_through_its_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such a file system has made the file by the time it refuses."""
    made = os.open

    def refusing(path: Path, flags: int, mode: int = 0o777) -> int:
        fd = made(path, flags & ~os.O_DIRECT, mode)
        if flags & os.O_DIRECT:
            os.close(fd)
            raise OSError(errno.EINVAL, "Invalid argument", str(path))
        return fd

    monkeypatch.setattr("nearkv.planner.calibration.FILE_NBYTES", 16 << 20)
    monkeypatch.setattr("nearkv.planner.calibration.os.open", refusing)
    assert not drive_speed(tmp_path).direct
    assert list(tmp_path.iterdir()) == []


def test_drive_memory_and_kernel_are_measured_and_nothing_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nearkv.planner.calibration.FILE_NBYTES", 16 << 20)
    speed = drive_speed(tmp_path)
    assert speed.read > 0 < speed.write
    if speed.direct and speed.device_share:  # a file system in memory has no device
        assert 0.98 <= speed.device_share <= 1.02
    assert [size for size, _ in speed.read_by_size] == sorted(size for size, _ in speed.read_by_size)
    assert list(tmp_path.iterdir()) == []
    ticks = iter(range(10**6))
    assert copy_rate(lambda: float(next(ticks))) == 64 << 20  # a tick each
    with pytest.raises(UserError, match=r"256 tokens took .* too busy to measure"):
        kernel_speed(lambda: float(next(ticks)), long=256, short=128, batch=2)  # every call takes a tick
    kernel = kernel_speed(time.process_time, long=16384, short=128, batch=4)
    assert 1e7 < kernel.nbytes_s < 1e12


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["calibrate"], "output"),
        (["calibrate", "{work}/out", "--folder", "{work}/no"], "there is no such folder"),
        (["calibrate", "{work}/file/out"], "Not a directory"),
        (["calibrate", "{work}/out", "--threads", "0"], "threads"),
        (["calibrate", "{work}/out", "--threads", "99999999999"], "'--threads'"),
    ],
)
def test_bad_input(tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], named: str) -> None:
    (tmp_path / "file").write_text("")
    assert main([part.format(work=tmp_path) for part in arguments]) == 2
    assert named in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(("error", "code"), [(UserError("the machine is too busy"), 2), (KeyboardInterrupt(), 130)])
def test_a_measurement_that_fails_leaves_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: BaseException, code: int
) -> None:
    monkeypatch.setattr("nearkv.cli.calibrate.measure", Mock(side_effect=error))
    (tmp_path / "there").mkdir()
    for name in ("out", "there"):
        assert main(["calibrate", str(tmp_path / name), "--device", "cpu", "--folder", str(tmp_path)]) == code
    assert [path.name for path in tmp_path.iterdir()] == ["there"]


def test_a_device_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["calibrate", str(tmp_path / "out"), "--device", "tpu", "--folder", str(tmp_path)]) == 2
    assert "tpu" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
