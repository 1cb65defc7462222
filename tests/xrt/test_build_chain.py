# SPDX-License-Identifier: Apache-2.0
"""Script to model: `nearkv build` with a played Vitis, its xclbin loaded by the real XRT, golden vectors through it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from nearkv.cli import main

from tests.support import vectors
from tests.support.jobs import BASE
from tests.support.rtl_tools import needs
from tests.support.vitis_install import install

emulation = pytest.importorskip("nearkv_emulation.xrt_run.emulate", reason="the device process behind XRT is not here")
FEW = ("identify", "head-size-64", "waves")


@needs("tclsh", "g++")
@pytest.mark.parametrize(("target", "flow"), [("hw", "rtl"), ("hw_emu", "hls")])
def test_what_was_built_runs_under_the_real_xrt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: str, flow: str
) -> None:
    from tests.support.xrt import installation, program

    found, replay = installation(), program("replay")
    with monkeypatch.context() as vitis:
        for name, value in install(tmp_path, "2022.1").environ().items():
            vitis.setenv(name, value)
        line = ["build", "--platform", "u2", "--flow", flow, "--target", target, "--output", str(tmp_path / "out")]
        assert main(line) == 0
    (xclbin,) = (tmp_path / "out").glob("*.xclbin")

    chosen = [vector for vector in vectors.load() if vector.name in FEW]
    lines = []
    for number, vector in enumerate(chosen):
        image = vector.image
        (tmp_path / f"{number}.before").write_bytes(image.memory.tobytes())
        registers = " ".join(str(value - image.base) for value in (image.kv, image.ctl, image.out))
        lines.append(f"{tmp_path}/{number}.before {tmp_path}/{number}.after {registers}\n")
    (tmp_path / "list").write_text("".join(lines))
    command = [str(replay), str(xclbin), hex(BASE), "normal", str(tmp_path / "list")]
    options = emulation.Options(kernel="model", xclbin=xclbin, timeout_s=120)
    finished = emulation.emulate(command, options, installation=found)
    assert finished.status == 0
    (session,) = finished.reports[0].details["sessions"]
    assert session["starts"] == {"nearkv_attend_1": len(FEW)}
    for number, vector in enumerate(chosen):
        differing = vector.differing_in(np.fromfile(tmp_path / f"{number}.after", np.uint8))
        assert len(differing) == 0, f"{vector.name}: {len(differing)} bytes differ"
