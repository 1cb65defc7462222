# SPDX-License-Identifier: Apache-2.0
"""Finding Vitis: what is missing or wrong is said with what was found and what is needed."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
from nearkv_driver.bitstream import Flow, Request, Target, ToolUnusable, load_platforms, read_environment
from nearkv_driver.bitstream.environment import Environment
from nearkv_driver.bitstream.tools import find_tools, tool_variables

from tests.support.vitis_install import Installation, install

CARDS = load_platforms()


def request(folder: Path, key: str = "u2", target: Target = Target.HW, any_vitis: bool = False) -> Request:
    return Request(CARDS[key], Flow.HLS, target, folder / "out", any_vitis=any_vitis)


def environment(found: Installation, **changes: str) -> Environment:
    """As after settings64.sh; a change of "" removes a variable. Installations are looked for below the folder."""
    variables = {name: value for name, value in (found.environ() | changes).items() if value}
    known = replace(read_environment(variables), install_folders=(found.root,))
    return replace(known, platform_folders=known.platform_folders[:-1])  # not the machine's own


def test_tools_platform_and_versions_are_found(tmp_path: Path) -> None:
    found = install(tmp_path)
    tools = find_tools(environment(found), request(tmp_path, target=Target.HW_EMU))
    assert (tools.vpp.path, tools.vpp.version) == (found.vitis / "bin" / "v++", "2021.2")
    assert (tools.vivado.path, tools.vivado.version) == (found.vivado / "bin" / "vivado", "2021.2")
    assert tools.emconfigutil == found.vitis / "bin" / "emconfigutil"
    assert tools.platform_file == found.platforms / tools.platform_name / f"{tools.platform_name}.xpfm"


def test_a_variable_alone_is_enough(tmp_path: Path) -> None:
    found = install(tmp_path)
    known = environment(found, PATH="/usr/bin")
    tools = find_tools(known, request(tmp_path))
    assert tools.vpp.path == found.vitis / "bin" / "v++"
    assert tool_variables(known, tools)["PATH"].split(os.pathsep) == [
        str(found.vitis / "bin"),
        str(found.vivado / "bin"),
        "/usr/bin",
    ]


def test_a_path_alone_is_enough_and_the_variables_follow(tmp_path: Path) -> None:
    found = install(tmp_path)
    known = environment(found, XILINX_VITIS="", XILINX_VIVADO="")
    variables = tool_variables(known, find_tools(known, request(tmp_path)))
    assert (variables["XILINX_VITIS"], variables["XILINX_VIVADO"]) == (str(found.vitis), str(found.vivado))


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        (
            {"PATH": "/usr/bin", "XILINX_VITIS": ""},
            r"v\+\+ is not in PATH and XILINX_VITIS is not set; platform u2 needs Vitis 2021.1, 2021.2 or 2022.1; "
            r"run first: source \S+/Vitis/2021.2/settings64.sh",
        ),
        ({"PATH": "/usr/bin", "XILINX_VITIS": "/nowhere"}, r"XILINX_VITIS is /nowhere, which has no bin/v\+\+"),
        (
            {"XILINX_VITIS": "/nowhere"},
            r"PATH has \S+/v\+\+, but XILINX_VITIS is /nowhere: two installations are mixed",
        ),
        (
            {"PLATFORM_REPO_PATHS": "/nowhere"},
            "no development platform xilinx_u2_gen3x4_xdma_gc_2_202110_1 or xilinx_u2_gen3x4_xdma_flat_gc_2_202110_1 "
            "in /nowhere; install the vendor's development package of the Samsung SmartSSD",
        ),
    ],
)
def test_what_is_missing_is_named(tmp_path: Path, changes: dict[str, str], text: str) -> None:
    with pytest.raises(ToolUnusable, match=text):
        find_tools(environment(install(tmp_path), **changes), request(tmp_path))


def test_without_vivado(tmp_path: Path) -> None:
    found = install(tmp_path)
    (found.vivado / "bin" / "vivado").unlink()
    with pytest.raises(ToolUnusable, match=r"vivado is not in PATH and XILINX_VIVADO is .* which has no bin/vivado"):
        find_tools(environment(found), request(tmp_path))


def test_emulation_needs_emconfigutil(tmp_path: Path) -> None:
    found = install(tmp_path)
    (found.vitis / "bin" / "emconfigutil").unlink()
    find_tools(environment(found), request(tmp_path))
    with pytest.raises(ToolUnusable, match=r"emconfigutil is neither beside \S+/v\+\+ nor in PATH"):
        find_tools(environment(found), request(tmp_path, target=Target.HW_EMU))


def test_an_emconfigutil_of_xrt_does_not_go_before_that_of_vitis(tmp_path: Path) -> None:
    found = install(tmp_path)
    other = tmp_path / "xrt" / "bin"
    other.mkdir(parents=True)
    (other / "emconfigutil").write_text("#!/bin/sh\n")
    (other / "emconfigutil").chmod(0o755)
    known = environment(found, PATH=f"{other}{os.pathsep}{found.environ()['PATH']}")
    assert (
        find_tools(known, request(tmp_path, target=Target.HW_EMU)).emconfigutil == found.vitis / "bin" / "emconfigutil"
    )


def test_a_wrong_version_is_refused_unless_told(tmp_path: Path) -> None:
    found = install(tmp_path, "2023.2")
    known = environment(found)
    with pytest.raises(
        ToolUnusable,
        match=r"is Vitis 2023.2; platform u2 needs 2021.1, 2021.2 or 2022.1; installed here, though not of these "
        r"versions: source .*--any-vitis goes on with 2023.2",
    ):
        find_tools(known, request(tmp_path))
    assert find_tools(known, request(tmp_path, any_vitis=True)).vpp.version == "2023.2"
    assert find_tools(known, request(tmp_path, key="u50")).vpp.version == "2023.2"


def test_the_wrong_version_names_the_right_one_that_is_installed(tmp_path: Path) -> None:
    found = install(tmp_path, "2023.2")
    right = install(tmp_path, "2022.1")
    with pytest.raises(ToolUnusable, match=rf"run first: source {right.vitis}/settings64.sh\. --any-vitis"):
        find_tools(environment(found), request(tmp_path))


def test_two_versions_are_not_mixed(tmp_path: Path) -> None:
    found = install(tmp_path, "2021.2", vivado_version="2022.1")
    with pytest.raises(ToolUnusable, match=r"v\+\+ is of 2021.2 and .*vivado of 2022.1; both must be"):
        find_tools(environment(found), request(tmp_path))


@pytest.mark.parametrize(
    ("script", "text"),
    [
        ("#!/bin/sh\necho 'licence trouble'\nexit 3\n", r"names no version \(exit code 3\); it said: licence trouble"),
        ("#!/bin/sh\n", r"names no version \(exit code 0\); it said: nothing"),
        ("no program\n", "names no version|cannot be run"),
    ],
)
def test_a_tool_that_does_not_run_is_named(tmp_path: Path, script: str, text: str) -> None:
    found = install(tmp_path)
    (found.vitis / "bin" / "v++").write_text(script)
    with pytest.raises(ToolUnusable, match=rf"v\+\+ --version ({text})"):
        find_tools(environment(found), request(tmp_path))


def test_the_second_name_of_a_platform_will_do(tmp_path: Path) -> None:
    found = install(tmp_path, "2022.1")
    first, second = CARDS["u280"].platforms
    (found.platforms / first / f"{first}.xpfm").unlink()
    assert find_tools(environment(found), request(tmp_path, key="u280")).platform_name == second
