# SPDX-License-Identifier: Apache-2.0
"""PYNQ 3.0.1, the last that knows PCIe cards, unmodified against an emulated one.

It needs packages so old that it has an environment of its own, which `make test-pynq` makes.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from nearkv_emulation.xrt_run.emulate import Options, emulate

from tests.support import xrt_toy
from tests.support.cli import ROOT
from tests.support.xrt import direct_io, installation

_PYTHON = ROOT / ".venv-pynq" / "bin" / "python"
_PROGRAM = Path(__file__).with_name("pynq_program.py")


def test_a_pynq_program_runs(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    found = installation()
    if not _PYTHON.is_file():
        pytest.skip("PYNQ 3.0.1 is missing: make test-pynq")
    direct_io(tmp_path)
    # Its reader of xclbin files knows no banks of the host.
    xclbin, words = xrt_toy.write_xclbin(tmp_path, host=False), tmp_path / "words"
    words.write_bytes(np.random.default_rng(3).integers(0, 1 << 64, 1024, np.uint64).tobytes())
    options = Options(xclbin=xclbin, models=xrt_toy.MODELS, timeout_s=200)
    finished = emulate([str(_PYTHON), str(_PROGRAM), str(xclbin), str(words)], options, installation=found)
    assert finished.status == 0
    assert capfd.readouterr().out.endswith("finished\n")
