# SPDX-License-Identifier: Apache-2.0
"""Reports of place and route: the right file is read, figures come out as they stand, and nonsense is an error."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from nearkv_driver.bitstream.reports import ReportError, Use, read_timing, read_utilisation

from tests.support import fake_reports


def folders(path: Path, outcome: str) -> list[Path]:
    fake_reports.write(path / "reports" / "imp", path / "temp", outcome)
    return [path / "reports", path / "temp"]


def test_slacks_and_the_worst_clock(tmp_path: Path) -> None:
    timing = read_timing(folders(tmp_path, "lowered"))
    assert timing is not None
    assert (timing.wns_ns, timing.tns_ns, timing.failing_endpoints) == (-0.312, -150.8, 1450)
    assert (timing.whs_ns, timing.wpws_ns, timing.clock) == (0.010, 0.0, fake_reports.CLOCKS[0])
    assert timing.file.name == "impl_1_hw_bb_locked_timing_summary_routed.rpt"
    assert not timing.setup_met
    assert timing.others_met


def test_the_report_after_the_last_step_goes_first(tmp_path: Path) -> None:
    """Routing may end with a miss that the optimisation after it repairs."""
    where = folders(tmp_path, "failed")
    late = tmp_path / "temp" / "impl_1_hw_bb_locked_timing_summary_postroute_physopted.rpt"
    late.write_text(fake_reports.timing(0.003, 0.01, 0))
    os.utime(late, (1, 1))
    timing = read_timing(where)
    assert timing is not None
    assert (timing.file, timing.setup_met) == (late, True)


def test_of_two_reports_the_newer_one_counts(tmp_path: Path) -> None:
    where = folders(tmp_path, "met")
    old = tmp_path / "reports" / "imp" / "impl_2_hw_bb_locked_timing_summary_routed.rpt"
    old.write_text(fake_reports.timing(-1.0, 0.01, 5))
    os.utime(old, (1, 1))
    timing = read_timing(where)
    assert timing is not None
    assert timing.wns_ns == 0.021


def test_a_report_from_before_routing_is_none(tmp_path: Path) -> None:
    assert read_timing(folders(tmp_path, "none")) is None


def test_a_slack_that_there_is_not(tmp_path: Path) -> None:
    where = folders(tmp_path, "met")
    path = tmp_path / "reports" / "imp" / "impl_1_hw_bb_locked_timing_summary_routed.rpt"
    path.write_text(path.read_text().replace("      0.021        0.000 ", "         NA           NA ", 1))
    timing = read_timing(where)
    assert timing is not None
    assert (timing.wns_ns, timing.setup_met) == (None, False)


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        ("| Design Timing Summary", "| Another Summary", "no table 'Design Timing Summary'"),
        ("      0.021        0.000 ", "      0.0.1        0.000 ", "'0.0.1' is no slack"),
        ("      0.021        0.000 ", "        nan        0.000 ", "'nan' is no slack"),
        ("  WPWS(ns)", "  XXXX(ns)", r"has no WPWS\(ns\)"),
    ],
)
def test_a_report_that_cannot_be_understood_is_named(tmp_path: Path, old: str, new: str, text: str) -> None:
    where = folders(tmp_path, "met")
    path = tmp_path / "reports" / "imp" / "impl_1_hw_bb_locked_timing_summary_routed.rpt"
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new, 1))
    with pytest.raises(ReportError, match=f"routed.rpt.*{text}"):
        read_timing(where)


def test_a_report_cut_behind_its_heading_is_an_error(tmp_path: Path) -> None:
    where = folders(tmp_path, "met")
    path = tmp_path / "reports" / "imp" / "impl_1_hw_bb_locked_timing_summary_routed.rpt"
    text = path.read_text()
    path.write_text(text[: text.index("WNS(ns)") + 20])
    with pytest.raises(ReportError, match="routed"):
        read_timing(where)


def test_resources_of_device_and_kernel(tmp_path: Path) -> None:
    use = read_utilisation(folders(tmp_path, "met"))
    assert use.device == {
        "lut": Use(243579, 522720),
        "ff": Use(393473, 1045440),
        "bram36": Use(269.5, 984),
        "uram": Use(64, 128),
        "dsp": Use(564, 1968),
    }
    assert use.kernel["lut"] == Use(142345, 421486)
    assert use.kernel["bram36"] == Use(136.5, 851)
    assert (use.kernel["dsp"].used, use.kernel["dsp"].percent) == (560, 28.51)


def test_resources_in_the_columns_of_an_older_release(tmp_path: Path) -> None:
    where = folders(tmp_path, "met")
    path = tmp_path / "reports" / "imp" / "impl_1_full_util_routed.rpt"
    path.write_text(
        path.read_text().replace("| Prohibited ", "").replace("|        480 ", "").replace("|          0 ", "")
    )
    assert read_utilisation(where).device["lut"] == Use(243579, 522720)


def test_no_report_no_resources(tmp_path: Path) -> None:
    use = read_utilisation([tmp_path])
    assert (use.device, use.kernel) == ({}, {})
