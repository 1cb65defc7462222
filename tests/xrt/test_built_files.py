# SPDX-License-Identifier: Apache-2.0
"""From the build script to the kernel's bytes: `nearkv build`, its xclbin, the real XRT, and a model behind it.

Vitis is played (tests/support/fake_vitis.py), so there is no bitstream in the file; everything else of it is used.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from nearkv.cli import main
from nearkv_emulation.xrt_run.emulate import Options

from tests.support.rtl_tools import needs
from tests.support.vitis_install import install
from tests.xrt.test_replay import FEW, named, replay

needs_tclsh = needs("tclsh")


@pytest.mark.parametrize(
    ("platform", "flow", "target"),
    [("u2", "hls", "hw"), pytest.param("u50", "rtl", "hw_emu", marks=needs_tclsh)],
)
def test_a_built_file_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, platform: str, flow: str, target: str
) -> None:
    for name, value in install(tmp_path / "vitis", "2022.1").environ().items():
        if name != "HOME":  # what has been built for other tests is found there
            monkeypatch.setenv(name, value)
    output = tmp_path / "out"
    line = ["build", "--platform", platform, "--flow", flow, "--target", target, "--output", str(output)]
    assert main(line) == 0
    (xclbin,) = output.glob("*.xclbin")
    finished, wrong = replay(named(FEW), Options(xclbin=xclbin, timeout_s=120), tmp_path)
    assert (finished.status, wrong) == (0, [])
