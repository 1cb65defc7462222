# SPDX-License-Identifier: Apache-2.0
"""The cocotb benches of the modules, on Verilator and on Icarus; and that a failing bench fails here."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.rtl_tools import COCOTB, VERILATOR, needs, needs_icarus, patient

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

pytestmark = [needs(*COCOTB), patient]


def run(module: str, bench: str, simulator: str, folder: Path) -> None:
    from tests.rtl.simulate import simulate

    simulate(module, bench, simulator, folder)


@needs_icarus
@pytest.mark.parametrize("module", MODULES)
def test_module_on_icarus(module: str, tmp_path: Path) -> None:
    run(module, f"bench_{module}", "icarus", tmp_path)


@pytest.mark.soak
@needs(*VERILATOR)
@pytest.mark.parametrize("module", MODULES)
def test_module_on_verilator(module: str, tmp_path: Path) -> None:
    run(module, f"bench_{module}", "verilator", tmp_path)


@needs_icarus
def test_a_failing_bench_fails(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="never_holds"):
        run("fifo", "bench_that_fails", "icarus", tmp_path)
