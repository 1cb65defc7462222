# SPDX-License-Identifier: Apache-2.0
"""Stands in for v++, Vivado and emconfigutil: checks its arguments, records them, and leaves the files that they would.

    python -m tests.support.fake_vitis SETTINGS.json TOOL ARGUMENT...

It synthesises nothing. The xclbin holds the kernel that the kernel object brought, linked as the configuration says;
the reports are of invented figures. What goes wrong is a setting, see `Settings`. `vitis_install` makes the programs.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from nearkv_driver.bitstream.platforms import Memory, Platform, load_platforms
from nearkv_driver.xclbin import Bank, Clock, Design, Kernel, Mode, Unit
from nearkv_driver.xclbin.kernel import nearkv_kernel, parse_xml
from nearkv_driver.xclbin.tables import BankType, ClockType

from tests.support import fake_reports

STUBS = Path(__file__).with_name("vitis_stubs.tcl")
_BASE = 0x40_0000_0000
_UNIT_BASE, _UNIT_STEP = 0x180_0000, 0x1_0000


@dataclass(frozen=True)
class Settings:
    """`record` takes one JSON line per call. `timing` is a key of fake_reports.OUTCOMES, `none` or `garbled`.

    `fail` names the step (compile, link, package, emconfig) that fails after it `says` something. `broken`: `memory`
    links one argument to another bank, `cut` halves the xclbin, `no output` leaves none.
    """

    record: str
    timing: str = "met"
    fail: str = ""
    says: str = ""
    broken: str = ""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        _fail(f"ERROR: [v++ 60-602] {message}")


def main(arguments: list[str]) -> int:
    settings = Settings(**json.loads(Path(arguments[0]).read_text()))
    tool, rest = arguments[1], arguments[2:]
    with Path(settings.record).open("a") as file:
        file.write(json.dumps([tool, *rest]) + "\n")
    if tool == "vivado":
        return _vivado(rest, settings)
    if tool == "emconfigutil":
        return _emconfigutil(rest, settings)
    steps = {"-c": _compile, "-l": _link, "-p": _package}
    if not rest or rest[0] not in steps:
        _fail("ERROR: [v++ 60-600] one of -c, -l, -p is expected first")
    return steps[rest[0]](rest[1:], settings)


def _fail(*lines: str) -> NoReturn:
    sys.stdout.write("INFO: [v++ 60-1306] something before\n" + "\n".join(lines) + "\nINFO: [Common] Exiting\n")
    sys.exit(1)


def _trouble(step: str, settings: Settings) -> None:
    if settings.fail == step:
        _fail(*settings.says.splitlines())


def _options(name: str) -> _Parser:
    parser = _Parser(prog=name, allow_abbrev=False)
    parser.add_argument("-t", required=True, choices=["hw", "hw_emu"])
    parser.add_argument("--platform", required=True, type=Path)
    parser.add_argument("--save-temps", action="store_true")
    for folder in ("--temp_dir", "--log_dir", "--report_dir"):
        parser.add_argument(folder, required=True, type=Path)
    parser.add_argument("-o", dest="output", required=True, type=Path)
    return parser


def _parsed(parser: _Parser, arguments: list[str]) -> argparse.Namespace:
    options = parser.parse_args(arguments)
    if not options.platform.is_file() or options.platform.suffix != ".xpfm":
        _fail(f"ERROR: [v++ 60-1258] no platform {options.platform}")
    for folder in (options.temp_dir, options.log_dir, options.report_dir):
        folder.mkdir(parents=True, exist_ok=True)
    return options


def _compile(arguments: list[str], settings: Settings) -> int:
    parser = _options("v++ -c")
    parser.add_argument("-k", required=True)
    parser.add_argument("--hls.clock", dest="clock", required=True)
    parser.add_argument("--advanced.prop", dest="prop", action="append", default=[])
    parser.add_argument("-I", dest="include", action="append", type=Path, default=[])
    parser.add_argument("-D", dest="define", action="append", default=[])
    parser.add_argument("source", type=Path)
    options = _parsed(parser, arguments)
    _trouble("compile", settings)
    text = options.source.read_text()
    if f"void {options.k}(" not in text:
        _fail(f"ERROR: [v++ 60-773] {options.source} has no kernel {options.k}")
    headers = [line.split('"')[1] for line in text.splitlines() if line.startswith('#include "')]
    for header in headers:
        if not any((folder / header).is_file() for folder in options.include):
            _fail(f"ERROR: [HLS 207-812] '{header}' file not found: {options.source}")
    options.output.write_text(nearkv_kernel().xml())
    return 0


def _vivado(arguments: list[str], settings: Settings) -> int:
    """Runs the script under tclsh, where its commands are recorded beside the calls."""
    _trouble("compile", settings)
    if "-source" not in arguments or "-tclargs" not in arguments or arguments[:2] != ["-mode", "batch"]:
        _fail("ERROR: [Common 17-163] -mode batch, -source and -tclargs are expected")
    script = arguments[arguments.index("-source") + 1]
    rest = arguments[arguments.index("-tclargs") + 1 :]
    line = ["tclsh", str(STUBS), settings.record + ".tcl", script, *rest]
    return subprocess.run(line, stderr=subprocess.STDOUT, timeout=60, check=False).returncode


def _link(arguments: list[str], settings: Settings) -> int:
    parser = _options("v++ -l")
    parser.add_argument("--config", required=True, type=Path)
    parser.add_argument("--kernel_frequency", type=int)
    parser.add_argument("objects", nargs="+", type=Path)
    options = _parsed(parser, arguments)
    _trouble("link", settings)
    design = _design(options, settings.timing)
    if settings.broken == "memory":
        design = _elsewhere(design)
    data = design.container(b"no bitstream").pack()
    options.output.write_bytes(data[: len(data) // 2] if settings.broken == "cut" else data)
    if options.t == "hw":
        fake_reports.write(options.report_dir / "imp", options.temp_dir, settings.timing)
    return 0


def _package(arguments: list[str], settings: Settings) -> int:
    parser = _options("v++ -p")
    parser.add_argument("--package.out_dir", dest="out_dir", required=True, type=Path)
    options = _parsed(parser, arguments[1:])
    _trouble("package", settings)
    if settings.broken != "no output":
        options.output.write_bytes(Path(arguments[0]).read_bytes())
    return 0


def _emconfigutil(arguments: list[str], settings: Settings) -> int:
    parser = _Parser(prog="emconfigutil", allow_abbrev=False)
    parser.add_argument("--platform", required=True, type=Path)
    parser.add_argument("--nd", required=True, type=int)
    parser.add_argument("--od", required=True, type=Path)
    options = parser.parse_args(arguments)
    _trouble("emconfig", settings)
    device = {"Name": options.platform.stem, "NumDevices": str(options.nd), "DdrBanks": [{"Size": "4G"}]}
    device["OclFreqency"] = "300"  # spelt as the vendor does
    boards = [{"NumBoards": "1", "Devices": [device]}]
    document = {"Version": {"FileVersion": "2.0"}, "Platform": {"Boards": boards}}
    (options.od / "emconfig.json").write_text(json.dumps(document))
    return 0


def _design(options: argparse.Namespace, timing: str) -> Design:
    """What the configuration says, of the kernel in the kernel object."""
    name = options.platform.stem
    platform = next(p for p in load_platforms().values() if name in p.platforms)
    kernel = _kernel(options.objects[0])
    lines = [line.split("#")[0].strip() for line in options.config.read_text().splitlines()]
    values = [line.partition("=")[::2] for line in lines if "=" in line]
    frequency = next((int(v) for k, v in values if k == "kernel_frequency"), options.kernel_frequency or 300)
    tags = dict(v.split(":", 1) for k, v in values if k == "sp")
    names = next(v for k, v in values if k == "nk").split(":")[2].split(".")
    ports = {a.name: a.port for a in kernel.arguments}
    units = tuple(
        Unit(
            kernel.name,
            unit,
            _UNIT_BASE + number * _UNIT_STEP,
            {a: tags.get(f"{unit}.{a}", tags.get(f"{unit}.{port}", "")) for a, port in ports.items()},
        )
        for number, unit in enumerate(names)
    )
    achieved = fake_reports.achieved(timing, frequency) if options.t == "hw" else frequency
    clocks = (Clock("DATA_CLK", achieved, ClockType.DATA), Clock("KERNEL_CLK", 500, ClockType.KERNEL))
    mode = Mode.HW_EMU if options.t == "hw_emu" else Mode.FLAT
    return Design(name, (kernel,), units, _banks(platform, set(tags.values())), clocks, mode)


def _kernel(path: Path) -> Kernel:
    def fail(text: str) -> ValueError:
        return ValueError(f"{path}: {text}")

    element = parse_xml(path.read_text(), fail).find("kernel")
    if element is None:
        raise fail("no kernel")
    return Kernel.of(element, fail)


def _banks(platform: Platform, tags: set[str]) -> tuple[Bank, ...]:
    """The groups that are used, one after another, and a bank that is not."""
    banks, base = [], _BASE
    for tag in [*sorted(tags), "other"]:
        memory = platform.memories[0] if tag == "other" else platform.place(tag).memory
        nbytes = memory.nbytes if tag == "other" else platform.place(tag).nbytes
        banks.append(Bank(tag, base, nbytes, _type(memory), used=tag != "other"))
        base += nbytes
    return tuple(banks)


def _type(memory: Memory) -> BankType:
    return BankType.HBM if memory.name == "HBM" else BankType.DDR4


def _elsewhere(design: Design) -> Design:
    """The first unit's `out` on a bank of its own, as a linker may do that was told nothing."""
    first = design.units[0]
    moved = Unit(first.kernel, first.name, first.base, {**first.banks, "out": "other"})
    return Design(design.platform, design.kernels, (moved, *design.units[1:]), design.banks, design.clocks, design.mode)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
