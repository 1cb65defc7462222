# SPDX-License-Identifier: Apache-2.0
"""Runs a cocotb bench on one module of fpga/rtl, and reads the results file: the only honest verdict of a run.

Simulators are built once per module, parameters and sources, and kept in the cache folder like the Verilated library.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import cocotb_tools.config
import platformdirs
from cocotb_tools.runner import get_runner
from nearkv_emulation.build import Compiler
from nearkv_emulation.rtl_build import environment, rtl_folder

BENCH = Path(__file__).parent / "bench"
TIMESCALE = ("1ns", "1ps")
ARGUMENTS = {
    # Only the ports are public (see build): all signals public would cost speed and time of the C++ compiler.
    "verilator": [
        *("--language", "1364-2005", "-O3", "-Wno-fatal", "-Wno-lint", "--no-assert", "--no-public-flat-rw"),
        *("--x-initial", "unique", "--x-assign", "unique", "--output-split", "20000"),
        *("-MAKEFLAGS", "OPT_FAST=-O1 OPT_SLOW=-O0 OPT_GLOBAL=-O1"),
    ],
    "icarus": ["-g2005"],
}
PRODUCT = {"verilator": "{top}", "icarus": "sim.vvp"}


def sources_of(module: str, folder: Path | None = None) -> list[Path]:
    """The module's file and those of all modules below it, by name: one module per file."""
    folder = folder or rtl_folder()
    modules = {path.stem: path for path in folder.glob("*.v")}
    found, open_names = {module}, [module]
    while open_names:
        text = re.sub(r"//[^\n]*", "", modules[open_names.pop()].read_text())
        for name in re.findall(r"^\s*(\w+)\s+(?:#\s*\(|\w+\s*\()", text, re.MULTILINE):
            if name in modules and name not in found:
                found.add(name)
                open_names.append(name)
    return sorted(modules[name] for name in found)


def public_ports(path: Path) -> str:
    """A Verilator control file that lets a bench see the ports of a module and nothing else."""
    ports = re.findall(
        r"^\s*(?:input|output) wire (?:signed )?(?:\[[^\]]*\] )?(\w+),?$", path.read_text(), re.MULTILINE
    )
    return "\n".join(["`verilator_config", *(f'public_flat_rw -module "{path.stem}" -var "{p}"' for p in ports), ""])


@contextlib.contextmanager
def _environment(simulator: str) -> Iterator[None]:
    """Variables for a simulator, and the bench folder on the path that the runner hands on; both undone at the end."""
    saved, path = dict(os.environ), list(sys.path)
    if simulator == "verilator":
        os.environ.update(environment())
    os.environ["COCOTB_LOG_LEVEL"] = os.environ.get("COCOTB_LOG_LEVEL", "WARNING")
    sys.path.insert(0, str(BENCH))
    try:
        yield
    finally:
        sys.path[:] = path
        os.environ.clear()
        os.environ.update(saved)


def _key(simulator: str, sources: list[Path], parameters: Mapping[str, int]) -> str:
    """Hash of all that decides what is built."""
    tools = [simulator, cocotb_tools.config.libs_dir, importlib.metadata.version("cocotb"), sorted(parameters.items())]
    if simulator == "verilator":
        tools += [importlib.metadata.version("verilator"), Compiler().describe(())]
    else:
        tools.append(subprocess.run(["iverilog", "-V"], capture_output=True, text=True, check=True).stdout[:80])
    digest = hashlib.sha256(repr((tools, ARGUMENTS[simulator])).encode())
    for path in [*sources, *sorted(sources[0].parent.glob("*.vh"))]:
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:24]


def build(module: str, simulator: str, parameters: Mapping[str, int] | None = None, rtl: Path | None = None) -> Path:
    """Folder of the built simulator, from the cache when it is there. `rtl`: a folder instead of fpga/rtl."""
    parameters = dict(parameters or {})
    sources = sources_of(module, rtl)
    cache = platformdirs.user_cache_path("nearkv") / "rtl" / "cocotb"
    cache.mkdir(parents=True, exist_ok=True)
    name = f"{module}-{simulator}-{_key(simulator, sources, parameters)}"
    target = cache / name
    product = PRODUCT[simulator].format(top=module)
    # Whoever waits here finds the simulator in place afterwards, and builds nothing.
    with (cache / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (target / product).exists():
            with tempfile.TemporaryDirectory(dir=cache) as work, _environment(simulator):
                public = Path(work) / "public.vlt"
                public.write_text(public_ports(next(path for path in sources if path.stem == module)))
                get_runner(simulator).build(
                    sources=[*sources, public] if simulator == "verilator" else sources,
                    includes=[sources[0].parent],
                    hdl_toplevel=module,
                    parameters=parameters,
                    build_args=ARGUMENTS[simulator],
                    build_dir=work,
                    timescale=TIMESCALE,
                    always=True,
                    log_file=Path(work) / "build.log",
                )
                target.mkdir(exist_ok=True)
                shutil.move(Path(work) / product, target / product)
    return target


def simulate(
    module: str,
    bench: str,
    simulator: str,
    folder: Path,
    parameters: Mapping[str, int] | None = None,
    rtl: Path | None = None,
    plusargs: Sequence[str] = (),
    **variables: str,
) -> None:
    """Runs the tests of a bench in `folder`. AssertionError with the names of those that failed, or when none ran."""
    built = build(module, simulator, parameters, rtl)
    results = folder / "results.xml"
    results.unlink(missing_ok=True)
    with _environment(simulator):
        try:
            get_runner(simulator).test(
                hdl_toplevel=module,
                hdl_toplevel_lang="verilog",
                test_module=bench,
                build_dir=built,
                test_dir=folder,
                results_xml=str(results),
                seed=1,
                plusargs=list(plusargs),
                timescale=TIMESCALE if simulator == "icarus" else None,
                extra_env=variables,
                log_file=folder / "sim.log",
            )
        except (SystemExit, RuntimeError, subprocess.CalledProcessError) as stop:
            # The runner exits when a test failed, and at times with 0 when the simulator has left no results.
            if not results.exists():
                raise AssertionError(f"{bench} on {simulator} ended without results: {_tail(folder)}") from stop
    judge(bench, simulator, results, folder)


def judge(bench: str, simulator: str, results: Path, folder: Path) -> None:
    """AssertionError unless the results file holds at least one test and every test in it passed."""
    assert results.exists(), f"{bench} on {simulator} ended without results: {_tail(folder)}"
    try:
        cases = list(ET.parse(results).getroot().iter("testcase"))
    except ET.ParseError as error:
        raise AssertionError(f"{bench} on {simulator} left half a results file: {error}") from error
    failed = [case.get("name") for case in cases if any(child.tag in ("failure", "error", "skipped") for child in case)]
    assert cases, f"no test of {bench} ran on {simulator}"
    assert not failed, f"{bench} on {simulator}: {failed} failed: {_tail(folder)}"


def _tail(folder: Path, lines: int = 40) -> str:
    """The end of the simulator's log."""
    log = folder / "sim.log"
    text = log.read_text(errors="replace").splitlines() if log.exists() else ["no log"]
    return "\n".join(["", *text[-lines:]])
