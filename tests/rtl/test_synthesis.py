# SPDX-License-Identifier: Apache-2.0
"""What fpga/rtl takes of a part does not rise unnoticed: changed modules are synthesised again and compared."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.rtl_tools import needs, needs_icarus, needs_pyverilog, patient
from tools.rtl import area, baseline, synth, synth_tables
from tools.rtl.baseline import Baseline, Entry, Stage
from tools.rtl.cells import KU15P, Resources
from tools.rtl.depth import Depth
from tools.rtl.sources import Sources
from tools.rtl.synthesis import Synthesis

needs_yosys = needs("python:pyosys")
# Synthesised whether they have changed or not: registers and adders, wide logic, block RAM, LUT RAM, multipliers.
SAMPLE = ["bin_lane", "row_scan", "fifo", "score_unit"]
RTL = synth.ROOT / synth.RTL


@pytest.fixture(scope="module")
def kept() -> Baseline:
    return baseline.load(synth.ROOT / synth.KEPT)


@pytest.fixture(scope="module")
def sources() -> Sources:
    return Sources(RTL)


def same_yosys(kept: Baseline) -> None:
    """Skips, with both versions, where the figures do not compare."""
    from tools.rtl import yosys

    if yosys.version() != kept.yosys:
        pytest.skip(f"figures are of Yosys {kept.yosys}, installed is {yosys.version()}")


@patient
@needs_yosys
@needs_pyverilog
@needs_icarus
def test_no_module_has_risen_unnoticed(kept: Baseline, sources: Sources) -> None:
    same_yosys(kept)
    now = area.refreshed(sources, Synthesis(sources), synth.TOP, kept.modules)
    risen = baseline.rises(kept.modules, now)
    assert not risen, "\n".join([*risen, "keep them with: python -m tools.rtl.synth --update"])


@patient
@needs_yosys
@needs_pyverilog
@needs_icarus
@pytest.mark.parametrize("module", SAMPLE)
def test_kept_figures_are_those_of_yosys(kept: Baseline, sources: Sources, module: str) -> None:
    same_yosys(kept)
    variant, count = next(found for found in sources.count(synth.TOP).items() if found[0].module == module)
    digest = sources.digest(variant)
    if str(variant) not in kept.modules or kept.modules[str(variant)].digest != digest:
        pytest.skip(f"{variant} has changed since its figures were kept; the test above compares them")
    assert area.entry(Synthesis(sources).netlist(variant), digest, count) == kept.modules[str(variant)]


@patient
@needs_yosys
@needs_pyverilog
@needs_icarus
def test_a_planted_rise_is_found(kept: Baseline, tmp_path: Path) -> None:
    """One more register stage behind bin_lane's sums."""
    same_yosys(kept)
    stage = "reg [149:0] late_reg;\nassign m_bins = late_reg;\nalways @(posedge clk) late_reg <= s_bins ^"
    planted = planted_copy(tmp_path, "bin_lane.v", "assign m_bins =", stage)
    sources = Sources(planted)
    known = {"bin_lane": replace(kept.modules["bin_lane"], instances=1)}
    now = area.refreshed(sources, Synthesis(sources, tmp_path / "cache"), "bin_lane", known)
    risen = baseline.rises(known, now)
    assert any(text.startswith("bin_lane: flip_flops rose from") for text in risen), risen
    assert any(text.startswith("bin_lane: luts rose from") for text in risen), risen


@needs_pyverilog
@needs_icarus
def test_a_comment_is_no_change(sources: Sources, tmp_path: Path) -> None:
    planted = Sources(planted_copy(tmp_path, "fifo.v", "`resetall", "// why\n\n/* wide\n */ `resetall"))
    assert planted.digest(planted.variant("fifo")) == sources.digest(sources.variant("fifo"))


@needs_pyverilog
@needs_icarus
@pytest.mark.parametrize(
    ("changed", "old", "new", "module", "differs"),
    [
        ("row_scan.v", "top_next == 5'd31", "top_next == 5'd30", "row_scan", True),
        ("row_scan.v", "top_next == 5'd31", "top_next == 5'd30", "block_writer", False),  # not its ports
        ("row_scan.v", "output wire nonfinite", "output wire nonfinite,\n output wire more", "block_writer", True),
        ("exp2_table.vh", "39'h", "39'h0", "exp2", True),
        ("exp2_table.vh", "39'h", "39'h0", "fifo", False),
    ],
)
def test_a_change_concerns_whoever_reads_it(
    sources: Sources, tmp_path: Path, changed: str, old: str, new: str, module: str, differs: bool
) -> None:
    planted = Sources(planted_copy(tmp_path, changed, old, new))
    different = planted.digest(planted.variant(module)) != sources.digest(sources.variant(module))
    assert different == differs


@needs_pyverilog
@needs_icarus
def test_parameters_make_another_module(sources: Sources) -> None:
    assert sources.digest(sources.variant("fifo", DEPTH=32)) != sources.digest(sources.variant("fifo", DEPTH=64))
    with pytest.raises(ValueError, match="no parameter DEEP; it has WIDTH, DEPTH, SPARE"):
        sources.variant("fifo", DEEP=32)
    with pytest.raises(ValueError, match="no module fifa"):
        sources.variant("fifa")


def test_goals_are_met(kept: Baseline) -> None:
    assert not synth_tables.missed(baseline.whole(kept.modules))


def test_a_missed_goal_is_named() -> None:
    most = Resources(luts=KU15P.luts * 35 // 100, bram18=500, dsps=600)
    assert not synth_tables.missed(most)
    for more, name in [
        (Resources(luts=1), "LUT: 35.0 % of the part"),
        (Resources(bram18=1), "BRAM36: 250.5"),
        (Resources(uram=1), "URAM: 1.0"),
        (Resources(dsps=1), "DSP48E2: 601.0"),
    ]:
        found = synth_tables.missed(most + more + Resources(luts=1))
        assert any(text.startswith(name) for text in found), found


def test_docs_show_what_is_kept(kept: Baseline) -> None:
    assert (synth.ROOT / synth.PAGE).read_text() == synth_tables.page(kept)
    docs = (synth.ROOT / synth.DOCS).read_text()
    assert synth_tables.replaced(docs, synth_tables.summary(kept)) == docs


def test_what_is_kept_reads_back(kept: Baseline, tmp_path: Path) -> None:
    path = tmp_path / "kept.toml"
    path.write_text(baseline.dump(kept))
    assert baseline.load(path) == kept
    assert path.read_text() == (synth.ROOT / synth.KEPT).read_text()


def test_update_writes_baseline_and_docs(kept: Baseline, tmp_path: Path) -> None:
    for file in (synth.KEPT, synth.PAGE, synth.DOCS):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / synth.DOCS).write_text(f"before\n{synth_tables.BEGIN}\nold\n{synth_tables.END}\nafter\n")
    synth.write(tmp_path, kept)
    assert baseline.load(tmp_path / synth.KEPT) == kept
    docs = (tmp_path / synth.DOCS).read_text()
    assert "old" not in docs
    assert docs.startswith("before\n")
    assert docs.endswith("\nafter\n")


def test_docs_without_a_place_for_figures_are_refused() -> None:
    with pytest.raises(ValueError, match="no part between"):
        synth_tables.replaced("# page\n", "block")


def entry(instances: int = 1, levels: int = 10, **resources: int) -> Entry:
    return Entry("0", instances, Resources(**{"luts": 1000, "flip_flops": 1000} | resources), Depth(levels))


@pytest.mark.parametrize(
    ("name", "after", "rise"),
    [
        ("m", entry(luts=1050), None),
        ("m", entry(luts=1051), "m: luts rose from 1000 to 1051; up to 1050"),
        ("m", entry(flip_flops=1051), "m: flip_flops rose from 1000 to 1051"),
        ("m", entry(bram18=1), "m: bram18 rose from 0 to 1"),
        ("m", entry(dsps=1), "m: dsps rose from 0 to 1"),
        ("m", entry(uram=1), "m: uram rose from 0 to 1"),
        ("m", entry(levels=11), None),
        ("m", entry(levels=12), "m: levels rose from 10 to 12"),
        ("m", entry(instances=2), "all m: luts rose from 1000 to 2000"),
        ("m WIDTH=2", entry(luts=1051), "all m: luts rose from 1000 to 1051"),
        ("m WIDTH=2", entry(luts=1050), None),
        ("n", entry(luts=1), "n: a new module"),
    ],
)
def test_rises(name: str, after: Entry, rise: str | None) -> None:
    found = baseline.rises({"m": entry()}, {name: after})
    assert not found if rise is None else any(text.startswith(rise) for text in found), found


def test_small_modules_may_take_a_few_more() -> None:
    assert not baseline.rises({"m": entry(luts=10)}, {"m": entry(luts=14)})
    assert baseline.rises({"m": entry(luts=10)}, {"m": entry(luts=15)})


def test_many_small_rises_add_up() -> None:
    before = {name: entry() for name in ("a", "b")}
    after = {name: replace(found, instances=2) for name, found in before.items()}
    assert any(
        text.startswith("the whole design: luts rose from 2000 to 4000") for text in baseline.rises(before, after)
    )


def test_deeper_paths() -> None:
    before = {"m": Stage(Depth(20, 3), "a", "b")}
    assert not baseline.deeper(before, {"m": Stage(Depth(21, 9), "a", "b")})
    assert baseline.deeper(before, {"m": Stage(Depth(22, 0), "a", "b")}) == [
        "paths to m: levels rose from 20 to 22; up to 21 passes unnoticed"
    ]


def planted_copy(folder: Path, file: str, old: str, new: str) -> Path:
    """fpga/rtl with one text replaced wherever it stands in one file."""
    copy = folder / "rtl"
    copy.mkdir()
    for path in [*RTL.glob("*.v"), *RTL.glob("*.vh")]:
        shutil.copy(path, copy)
    path = copy / file
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))
    return copy
