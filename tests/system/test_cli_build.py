# SPDX-License-Identifier: Apache-2.0
"""`nearkv build` with an installation of Vitis that is played: files that come out, refusals, and what is left."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from nearkv.cli import main
from nearkv_driver import regmap

from tests.support import fake_reports
from tests.support.rtl_tools import needs
from tests.support.vitis_install import Installation, install

U2 = "xilinx_u2_gen3x4_xdma_gc_2_202110_1"
needs_tclsh = needs("tclsh")


def use(monkeypatch: pytest.MonkeyPatch, found: Installation) -> Installation:
    """The environment as after settings64.sh."""
    for name, value in found.environ().items():
        monkeypatch.setenv(name, value)
    return found


def build(folder: Path, *arguments: str, platform: str = "u2", flow: str = "hls") -> tuple[int, Path]:
    output = folder / "out"
    return main(["build", "--platform", platform, "--flow", flow, "--output", str(output), *arguments]), output


def only(folder: Path, pattern: str) -> Path:
    (found,) = folder.glob(pattern)
    return found


def info(path: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, object]:
    capsys.readouterr()
    assert main(["xclbin", "info", str(path), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert isinstance(found, dict)
    return found


def test_an_xclbin_with_its_manifest_comes_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = use(monkeypatch, install(tmp_path))
    code, output = build(tmp_path)
    out, err = capsys.readouterr()
    assert code == 0
    xclbin = only(output, "*.xclbin")
    assert xclbin.name.startswith("nearkv-u2-hls-hw-1cu-300mhz-")
    assert xclbin.stem.endswith(f"-c{regmap.CONTRACT_VERSION}")
    assert f"xclbin    {xclbin}\n" in out
    assert "timing    met, slack 0.021 ns\n" in out
    assert "kernel    lut 142345 (33.77 %)" in out
    assert [line.split(",")[0] for line in err.splitlines()] == ["nearkv: compile: v++", "nearkv: link: v++"]
    assert [call[:2] for call in found.calls()] == [["v++", "-c"], ["v++", "-l"]], "2021.2 has no package step"

    document = json.loads(only(output, "*.json").read_text())
    assert (document["accepted"], document["vendor_platform"], document["tools"]["vitis"]) == (True, U2, "2021.2")
    assert (document["contract_version"], document["regmap_hash"]) == (1, f"{regmap.REGMAP_HASH:08x}")
    assert document["clock"] == {"requested_mhz": 300, "achieved_mhz": 300}
    assert (document["timing"]["closure"], document["timing"]["wns_ns"]) == ("met", 0.021)
    assert document["utilisation"]["kernel"]["dsp"] == {"used": 560, "available": 1964, "percent": 28.51}
    assert [step["name"] for step in document["steps"]] == ["compile", "link"]
    assert all(Path(step["log"]).is_file() for step in document["steps"])

    shown = info(xclbin, capsys)
    assert (shown["platform"], shown["mode"], shown["uuid"]) == (U2, "flat", document["xclbin"]["uuid"])


@needs_tclsh
@pytest.mark.parametrize("target", ["hw", "hw_emu"])
def test_the_rtl_goes_through_the_packaging_script_to_every_unit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], target: str
) -> None:
    found = use(monkeypatch, install(tmp_path, "2022.1"))
    code, output = build(tmp_path, "--target", target, "--cus", "2", platform="u50", flow="rtl")
    assert code == 0, capsys.readouterr().err
    steps = [["vivado", "-mode"], ["v++", "-l"], ["v++", "-p"], ["emconfigutil", "--platform"]]
    assert [call[:2] for call in found.calls()] == steps[: 4 if target == "hw_emu" else 3]
    assert "xcu50-fsvh2104-2-e" in Path(f"{found.record}.tcl").read_text().splitlines()[0]
    emconfig = list(output.glob("*.emconfig/emconfig.json"))
    assert len(emconfig) == (target == "hw_emu")
    shown = info(only(output, "*.xclbin"), capsys)
    assert shown["mode"] == ("hw_emu" if target == "hw_emu" else "flat")
    units = {u["name"]: u for u in shown["units"]}  # type: ignore[attr-defined]
    assert {name: {a["bank"] for a in unit["arguments"]} for name, unit in units.items()} == {
        "nearkv_attend_1": {"HBM[0:15]"},
        "nearkv_attend_2": {"HBM[16:31]"},
    }
    offsets = {(a["name"], a["offset"]) for unit in units.values() for a in unit["arguments"]}
    assert offsets == {("kv", regmap.ADDR_KV), ("ctl", regmap.ADDR_CTL), ("out", regmap.ADDR_OUT)}
    assert {unit["protocol"] for unit in units.values()} == {"ap_ctrl_chain"}


@pytest.mark.parametrize(
    ("timing", "text"),
    [
        ("lowered", "the tools lowered the kernel clock from 300 to 274 MHz (slack -0.312 ns)"),
        ("failed", f"timing failed: slack -0.312 ns, 1450 endpoints at {fake_reports.CLOCKS[0]}"),
        ("hold", "timing failed: hold slack -0.053 ns, which no slower clock repairs"),
        ("none", "no timing report was found, so nothing says that it works at speed"),
        ("garbled", "the timing report cannot be understood"),
    ],
)
def test_a_result_that_misses_its_timing_is_refused_and_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], timing: str, text: str
) -> None:
    use(monkeypatch, install(tmp_path, timing=timing))
    code, output = build(tmp_path)
    err = capsys.readouterr().err.splitlines()[-1]
    assert code == 3
    assert text in err
    kept = only(output, "*.xclbin.refused")
    assert f"It is kept as {kept}" in err
    assert "--allow-failed-timing" in err
    assert not list(output.glob("*.xclbin"))
    document = json.loads(only(output, "*.json").read_text())
    assert (document["accepted"], len(document["refused"])) == (False, 1)
    assert text in document["refused"][0]


def test_a_slower_clock_is_taken_when_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    use(monkeypatch, install(tmp_path, timing="lowered"))
    code, output = build(tmp_path, "--allow-failed-timing", "--json")
    out, err = capsys.readouterr()
    assert code == 0
    assert "nearkv: warning: the tools lowered the kernel clock from 300 to 274 MHz" in err
    document = json.loads(out)
    assert document == json.loads(only(output, "*.json").read_text())
    assert (document["accepted"], document["timing"]["closure"], document["clock"]["achieved_mhz"]) == (
        True,
        "lowered",
        274,
    )
    assert only(output, "*.xclbin").is_file()


@pytest.mark.parametrize(
    ("broken", "text"),
    [
        ("memory", "nearkv_attend_1 reaches kv bank0, ctl bank0, out other; all its arguments must reach one memory"),
        ("cut", "their xclbin cannot be read"),
        ("no output", "step package failed with exit code 0"),
    ],
)
def test_a_result_that_is_not_our_kernel_is_refused_whatever_is_allowed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], broken: str, text: str
) -> None:
    use(monkeypatch, install(tmp_path, "2022.1", broken=broken))
    code, output = build(tmp_path, "--allow-failed-timing")
    assert code == 3
    assert text in capsys.readouterr().err
    assert not list(output.glob("*.xclbin"))


@pytest.mark.parametrize("step", ["compile", "link", "package", "emconfig"])
def test_a_step_that_fails_is_named_with_its_errors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], step: str
) -> None:
    says = "WARNING: nothing\nERROR: [v++ 60-1] first\nERROR: [v++ 60-2] cf2sw failed"
    found = use(monkeypatch, install(tmp_path, "2022.1", fail=step, says=says))
    code, output = build(tmp_path, "--target", "hw_emu")
    lines = capsys.readouterr().err.splitlines()
    assert code == 3
    assert lines[-3:-1] == ["  ERROR: [v++ 60-1] first", "  ERROR: [v++ 60-2] cf2sw failed"]
    assert f"step {step} failed with exit code 1; log: {output}" in lines[-1]
    assert "Vitis_Accel_Examples #85" in lines[-1]
    assert len(found.calls()) == ["compile", "link", "package", "emconfig"].index(step) + 1
    assert not list(output.glob("*.xclbin*"))


def test_what_is_there_is_kept_and_no_tool_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = use(monkeypatch, install(tmp_path))
    assert build(tmp_path)[0] == 0
    calls = len(found.calls())
    code, output = build(tmp_path)
    assert (code, len(found.calls())) == (2, calls)
    assert f"{only(output, '*.xclbin')} exists; remove it" in capsys.readouterr().err


def test_a_bad_configuration_is_told_line_by_line_before_any_tool(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = use(monkeypatch, install(tmp_path))
    config = tmp_path / "my.cfg"
    config.write_text("[connectivity]\nnk=nearkv_attend:1\nsp=nearkv_attend_1.kv:DDR[0]\nslr=nearkv_attend_1:SLR0\n")
    code, output = build(tmp_path, "--config", str(config))
    lines = capsys.readouterr().err.splitlines()
    assert (code, found.calls(), output.exists()) == (2, [], False)
    assert lines[:3] == [
        f"{config}: nearkv_attend_1: no sp= for ctl, out; v++ would choose a memory by itself",
        f"{config}:3: u2 has no memory 'DDR[0]'; it has bank0",
        f"{config}:4: u2 has one die and takes no slr=",
    ]
    assert "(and 2 more); no tool was started" in lines[3]


def test_a_dry_run_needs_no_vitis_and_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    code, output = build(tmp_path, "--dry-run", "--cus", "4", "--target", "hw_emu", platform="u55c", flow="rtl")
    lines = capsys.readouterr().out.splitlines()
    assert (code, output.exists()) == (0, False)
    commands = [line.split()[0] for line in lines if not line.startswith("#")]
    assert commands == ["vivado", "v++", "v++", "emconfigutil"]
    assert "#   sp=nearkv_attend_4.out:HBM[24:31]" in lines


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("--platform", "u250"), "platform 'u250'; there are u2, u50, u55c, u280"),
        (("--flow", "vhdl"), "flow 'vhdl'; there are hls, rtl"),
        (("--target", "sw_emu"), "target 'sw_emu'; there are hw, hw_emu"),
        (("--cus", "9"), "9 compute units; u2 takes 1 to 2"),
        (("--frequency", "0"), "clock of 0 MHz; 50 to 500 MHz is allowed"),
        (("--config", "none.cfg"), "none.cfg cannot be read: No such file or directory"),
        (("--dry-run", "--json"), "--dry-run makes no manifest for --json to show"),
        ((), "v++ is not in PATH and XILINX_VITIS is not set; platform u2 needs Vitis 2021.1, 2021.2 or 2022.1"),
    ],
)
def test_bad_input_is_one_line(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: tuple[str, ...],
    text: str,
) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.delenv("XILINX_VITIS", raising=False)
    code, output = build(tmp_path, *arguments)
    lines = capsys.readouterr().err.splitlines()
    assert (code, len(lines), output.exists()) == (2 if arguments else 3, 1, False)
    assert text in lines[0]
