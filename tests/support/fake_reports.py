# SPDX-License-Identifier: Apache-2.0
"""Reports of place and route in the vendor's layout, with invented figures. Read by nobody but the tests."""

from __future__ import annotations

from pathlib import Path

FOLDER = Path(__file__).with_name("vitis_reports")
# Least slacks in ns of set-up and hold, failing endpoints, and the share of the clock that is reached.
OUTCOMES = {
    "met": (0.021, 0.010, 0, 1.0),
    "lowered": (-0.312, 0.010, 1450, 0.914),
    "failed": (-0.312, 0.010, 1450, 1.0),
    "hold": (0.021, -0.053, 0, 1.0),
}
CLOCKS = ("clk_out1_pfm_top_clkwiz_kernel_0", "hbm_aclk", "io_clk_freerun_00_clk_p")


def achieved(outcome: str, requested_mhz: int) -> int:
    return int(requested_mhz * OUTCOMES[outcome][3]) if outcome in OUTCOMES else requested_mhz


def write(folder: Path, temporary: Path, outcome: str) -> None:
    """Below `temporary` stands one from before routing, which says something else."""
    early = temporary / "vivado" / "vpl" / "prj" / "prj.runs" / "impl_1"
    early.mkdir(parents=True)
    (early / "hw_bb_locked_timing_summary_placed.rpt").write_text(timing(-9.0, -9.0, 99999))
    if outcome == "none":
        return
    folder.mkdir(parents=True)
    path = folder / "impl_1_hw_bb_locked_timing_summary_routed.rpt"
    if outcome == "garbled":
        path.write_text("Timing Summary Report\n\nnothing that a reader knows\n")
        return
    setup, hold, endpoints, _ = OUTCOMES[outcome]
    path.write_text(timing(setup, hold, endpoints))
    (folder / "impl_1_kernel_util_routed.rpt").write_text((FOLDER / "kernel_util.rpt").read_text())
    (folder / "impl_1_full_util_routed.rpt").write_text((FOLDER / "full_util.rpt").read_text())
    (folder / "impl_1_slr_util_routed.rpt").write_text("no table of ours\n")


def timing(setup: float, hold: float, endpoints: int) -> str:
    """The first of the clocks has the least slack."""
    slacks = zip(CLOCKS, (setup, 0.114, 0.530), strict=True)
    rows = "".join(f"{c:36}{s:11.3f}{0:13.3f}{0:23}{812345:21}{0.010:13.3f}\n" for c, s in slacks)
    values = {
        "WNS": f"{setup:11.3f}",
        "TNS": f"{round(min(0.0, setup) * endpoints / 3, 3):13.3f}",
        "ENDPOINTS": f"{endpoints:23}",
        "WHS": f"{hold:13.3f}",
        "CLOCKS": CLOCKS[0],
        "ROWS": rows,
        "VERDICT": "are met" if setup >= 0 and hold >= 0 else "are not met",
    }
    text = (FOLDER / "timing_summary.rpt").read_text()
    for name, value in values.items():
        text = text.replace(f"@{name}@", value)
    return text
