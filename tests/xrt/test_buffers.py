# SPDX-License-Identifier: Apache-2.0
"""Buffers, arguments, registers and starts as XRT's programs use them, on a kernel that is not ours."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from nearkv_emulation.xrt_run.emulate import Finished, Options, emulate
from nearkv_emulation.xrt_run.run_folder import RunFolder

from tests.support import xrt_toy
from tests.support.xrt import direct_io, installation, program

CHECKS = ("starts", "partial", "hidden", "host", "registers", "again")
NBYTES = 20000 * 8 + -(20000 * 8) % 4096
KEY = 0xFEDCBA9876543210
Run = Callable[..., Finished]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Runs checks of buffers.cpp; their file is `tmp_path / "words"`."""
    xclbin = xrt_toy.write_xclbin(tmp_path)

    def run(*checks: str, started: Callable[[RunFolder], None] = lambda folder: None, **options: Any) -> Finished:
        line = [str(program("buffers")), str(xclbin), str(tmp_path / "words"), *checks]
        chosen = Options(xclbin=xclbin, models=xrt_toy.MODELS, timeout_s=120, **options)
        return emulate(line, chosen, installation=installation(), started=started)

    return run


@pytest.mark.parametrize("attach", [True, False], ids=["attach", "launch"])
def test_what_programs_do_works(run: Run, attach: bool, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(*CHECKS, attach=attach).status == 0
    # Nothing else: what XRT's emulation has to say goes elsewhere.
    assert capfd.readouterr().out.splitlines() == [f"passed {name}" for name in CHECKS]


def test_a_drive_fills_and_empties_p2p_buffers(run: Run, tmp_path: Path) -> None:
    direct_io(tmp_path)
    words = np.random.default_rng(5).integers(0, 1 << 64, NBYTES // 8, np.uint64)
    (tmp_path / "words").write_bytes(words.tobytes())
    finished = run("drive")
    assert finished.status == 0
    words[:20000] += np.uint64(KEY)
    words[20000:] = 0  # what the kernel did not write
    assert np.array_equal(np.fromfile(tmp_path / "words", np.uint64), words)
    (session,) = finished.reports[0].details["sessions"]
    assert (session["to_device_nbytes"], session["from_device_nbytes"]) == (0, 0)
    assert (session["p2p_buffers"], session["p2p_nbytes"]) == (2, 2 * NBYTES)


def test_copies_fall_back_to_the_host(run: Run) -> None:
    assert run("copies").status == 0


def test_two_cards_have_memory_of_their_own(run: Run) -> None:
    finished = run("two", devices=2)
    assert finished.status == 0
    starts = [report.details["sessions"][0]["starts"]["add_hs_1"] for report in finished.reports]
    assert starts == [1, 1]


def test_nothing_is_left(run: Run) -> None:
    folders: list[RunFolder] = []
    run("starts", "partial", started=folders.append)
    (folder,) = folders
    assert not folder.path.exists()
    assert folder.shared is None or not folder.shared.exists()
