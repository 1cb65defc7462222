# SPDX-License-Identifier: Apache-2.0
"""From a request to commands: golden command lines, names, and what is refused before a tool runs."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path

import pytest
from nearkv_driver.bitstream import BuildRefused, ConfigRefused, Flow, Request, Target, load_platforms, make_plan
from nearkv_driver.bitstream.link_text import link_text
from nearkv_driver.bitstream.sources import Revision, Sources
from nearkv_driver.bitstream.tools import Tool, Tools
from nearkv_driver.xclbin import nearkv_kernel

CARDS = load_platforms()
GOLDEN = Path(__file__).parent / "golden"
COMMIT = "0123456789abcdef0123456789abcdef01234567"
SOURCES = Sources(Path("/src/hls"), Path("/src/rtl"), Revision(COMMIT, False, "ab" * 32))
REQUEST = Request(CARDS["u2"], Flow.HLS, Target.HW, Path("/out"))


def tools(version: str) -> Tools:
    vitis, vivado = Path("/x/Vitis") / version / "bin", Path("/x/Vivado") / version / "bin"
    vpp, viv = Tool(vitis / "v++", version), Tool(vivado / "vivado", version)
    return Tools(vpp, viv, vitis / "emconfigutil", "p", Path("/p/p.xpfm"))


CASES = {
    "u2-hls": (REQUEST, tools("2021.2")),
    "u2-hls-2022.1": (REQUEST, tools("2022.1")),
    "u55c-rtl-2cu-250": (replace(REQUEST, platform=CARDS["u55c"], flow=Flow.RTL, cus=2, frequency_mhz=250), None),
    "u280-rtl-hw_emu": (replace(REQUEST, platform=CARDS["u280"], flow=Flow.RTL, target=Target.HW_EMU), tools("2022.2")),
}


@pytest.mark.parametrize("name", CASES)
def test_the_command_lines_are_the_golden_ones(name: str) -> None:
    """One word per line, so that a change shows as what it is."""
    plan = make_plan(*(CASES[name][0], SOURCES, CASES[name][1]))
    lines = [str(plan.xclbin), ""]
    for step in plan.steps:
        lines += [f"# {step.name} -> {step.output}", *(shlex.quote(word) for word in step.command), ""]
    text = "\n".join([*lines, "# link.cfg", plan.config_text])
    assert text == (GOLDEN / f"{name}.txt").read_text()


def test_a_dirty_tree_is_marked_and_names_no_build() -> None:
    plan = make_plan(REQUEST, replace(SOURCES, revision=Revision(COMMIT, True, "ab" * 32)), None)
    assert plan.name == "nearkv-u2-hls-hw-1cu-300mhz-0123456789ab-dirty-c1"
    assert "NEARKV_BUILD=0x00000000" in plan.steps[0].command


def test_a_try_does_not_touch_the_one_before(tmp_path: Path) -> None:
    request = replace(REQUEST, output=tmp_path)
    first = make_plan(request, SOURCES, None).work
    first.mkdir()
    second = make_plan(request, SOURCES, None).work
    assert (first.name[-6:], second.name[-6:]) == (".work1", ".work2")


def test_a_configuration_of_one_s_own(tmp_path: Path) -> None:
    """It goes to v++ as it is; units and clock come from it; the name tells it from ours."""
    config = tmp_path / "my.cfg"
    config.write_text(link_text(CARDS["u50"], nearkv_kernel(), 2, 225) + "[vivado]\nprop=run.impl_1.strategy=x\n")
    request = replace(REQUEST, platform=CARDS["u50"], config=config)
    plan = make_plan(request, SOURCES, None)
    assert (plan.config_text, plan.frequency_mhz, len(plan.link.units)) == (config.read_text(), 225, 2)
    assert plan.name.startswith("nearkv-u50-hls-hw-2cu-225mhz-0123456789ab-c1-cfg")
    assert "--kernel_frequency" not in plan.steps[1].command
    assert plan.steps[0].command[plan.steps[0].command.index("--hls.clock") + 1] == "225000000:nearkv_attend"
    for change, text in (
        ({"cus": 1}, "--cus 1, but .*my.cfg has 2 compute units"),
        ({"frequency_mhz": 300}, "--frequency 300, but .*my.cfg sets 225 MHz"),
    ):
        with pytest.raises(BuildRefused, match=text):
            make_plan(replace(request, **change), SOURCES, None)  # type: ignore[arg-type]


def test_a_configuration_without_a_clock_takes_the_option(tmp_path: Path) -> None:
    config = tmp_path / "my.cfg"
    config.write_text(link_text(CARDS["u2"], nearkv_kernel(), 1, 300).replace("kernel_frequency=300", ""))
    command = make_plan(replace(REQUEST, config=config, frequency_mhz=200), SOURCES, None).steps[1].command
    assert command[command.index("--kernel_frequency") + 1] == "200"


def test_a_configuration_for_another_card_is_refused_by_line(tmp_path: Path) -> None:
    config = tmp_path / "my.cfg"
    config.write_text(link_text(CARDS["u50"], nearkv_kernel(), 1, 300))
    with pytest.raises(ConfigRefused, match=r"my.cfg:7: u2 has no memory 'HBM\[0:15\]'.*and 3 more.*no tool") as caught:
        make_plan(replace(REQUEST, config=config), SOURCES, None)
    assert [finding.line for finding in caught.value.findings] == [7, 8, 9, 10]


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"cus": 0}, "0 compute units; u2 takes 1 to 2"),
        ({"cus": 3}, "3 compute units; u2 takes 1 to 2"),
        ({"frequency_mhz": 49}, "clock of 49 MHz; 50 to 500 MHz"),
        ({"frequency_mhz": 501}, "clock of 501 MHz"),
        ({"output": Path("/out put")}, "no path with ' '"),
        ({"output": Path("/out[1]")}, r"no path with '\['"),
        ({"output": Path("/sücht")}, "no path with 'ü'"),
        ({"output": Path("/dev/null")}, "/dev/null is no folder"),
    ],
)
def test_what_cannot_be_built_is_refused(change: dict[str, object], text: str) -> None:
    with pytest.raises(BuildRefused, match=text):
        replace(REQUEST, **change)  # type: ignore[arg-type]


def test_sources_below_a_folder_with_a_blank_are_refused() -> None:
    with pytest.raises(BuildRefused, match="/my src/hls: the vendor's tools take no path with ' '"):
        make_plan(REQUEST, replace(SOURCES, hls=Path("/my src/hls")), None)
