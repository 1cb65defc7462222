# SPDX-License-Identifier: Apache-2.0
"""Runs a cocotb bench on one module of fpga/rtl, and reads the results file: the only honest verdict of a run."""

from __future__ import annotations

import os
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

from cocotb_tools.runner import get_runner
from nearkv_emulation.rtl_build import environment, rtl_folder, rtl_sources

BENCH = Path(__file__).parent / "bench"


def simulate(module: str, bench: str, simulator: str, folder: Path, parameters: dict[str, int] | None = None) -> None:
    """AssertionError with the names of the tests that failed, or when none ran."""
    saved = dict(os.environ)
    results = folder / "results.xml"
    if simulator == "verilator":
        os.environ.update(environment())
    # The runner hands its own sys.path to the simulator.
    sys.path.insert(0, str(BENCH))
    try:
        runner = get_runner(simulator)
        verilator = [
            "--language",
            "1364-2005",
            "-O1",
            "-Wno-fatal",
            "-Wno-lint",
            "--x-initial",
            "unique",
            "--x-assign",
            "unique",
        ]
        build = {"verilator": verilator, "icarus": ["-g2005"]}[simulator]
        runner.build(
            sources=rtl_sources(),
            includes=[rtl_folder()],
            hdl_toplevel=module,
            parameters=parameters or {},
            build_args=build,
            build_dir=folder,
            timescale=("1ns", "1ps"),
            always=True,
        )
        runner.test(
            hdl_toplevel=module,
            test_module=bench,
            build_dir=folder,
            test_dir=folder,
            results_xml=str(results),
            seed=1,
            timescale=("1ns", "1ps") if simulator == "icarus" else None,
        )
    except SystemExit as stop:
        # The runner exits when a test failed, and at times with 0 when the simulator has left no results.
        if not results.exists():
            raise AssertionError(f"{bench} on {simulator} ended without results") from stop
    finally:
        sys.path.remove(str(BENCH))
        os.environ.clear()
        os.environ.update(saved)
    cases = list(ET.parse(results).getroot().iter("testcase"))
    failed = [case.get("name") for case in cases if any(child.tag in ("failure", "error", "skipped") for child in case)]
    assert cases, f"no test of {bench} ran"
    assert not failed, f"{bench} on {simulator}: {failed} failed, see {results}"
