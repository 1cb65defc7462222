# SPDX-License-Identifier: Apache-2.0
"""The command line of every step. Starts nothing and looks at no file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from nearkv_driver.bitstream.sources import Sources

# Releases whose link output already is the file to load on a PCIe card; later ones have a package step.
NO_PACKAGE_STEP = ("2021.1", "2021.2")
_CXX_STANDARD = "-std=c++17"


@dataclass(frozen=True)
class Programs:
    """Names or paths of the tools."""

    vpp: str = "v++"
    vivado: str = "vivado"
    emconfigutil: str = "emconfigutil"


@dataclass(frozen=True)
class Step:
    """One command. `output` must exist when it has ended well."""

    name: str
    command: tuple[str, ...]
    output: Path


def compile_hls(
    programs: Programs, sources: Sources, kernel: str, target: str, platform: str, frequency_mhz: int, work: Path
) -> Step:
    """HLS C++ to a kernel object."""
    output = work / f"{kernel}.xo"
    command = [programs.vpp, "-c", *_common(target, platform, work, "compile"), "-k", kernel]
    command += ["--hls.clock", f"{frequency_mhz * 10**6}:{kernel}"]
    command += ["--advanced.prop", f"kernel.{kernel}.kernel_flags={_CXX_STANDARD}"]
    command += ["-I", str(sources.hls / "include"), "-D", f"NEARKV_BUILD={sources.revision.build_id:#010x}"]
    return Step("compile", (*command, "-o", str(output), str(sources.hls / "src" / f"{kernel}.cpp")), output)


def package_rtl(programs: Programs, sources: Sources, kernel: str, part: str, work: Path) -> Step:
    """RTL to a kernel object."""
    output = work / f"{kernel}.xo"
    script = sources.rtl / "vitis" / "package_kernel.tcl"
    command = [programs.vivado, "-mode", "batch", "-nojournal", "-nolog", "-notrace", "-source", str(script)]
    return Step("compile", (*command, "-tclargs", str(output), part), output)


def link(
    programs: Programs,
    target: str,
    platform: str,
    config: Path,
    objects: Sequence[Path],
    work: Path,
    output: Path,
    frequency_mhz: int | None,
) -> Step:
    """Kernel objects to an xclbin; a frequency that the configuration already sets is not given."""
    command = [programs.vpp, "-l", *_common(target, platform, work, "link"), "--config", str(config)]
    command += ["--kernel_frequency", str(frequency_mhz)] if frequency_mhz is not None else []
    return Step("link", (*command, "-o", str(output), *map(str, objects)), output)


def package(programs: Programs, target: str, platform: str, linked: Path, work: Path, output: Path) -> Step:
    """The link output to the file that is loaded."""
    command = [programs.vpp, "-p", str(linked), *_common(target, platform, work, "package")]
    return Step("package", (*command, "--package.out_dir", str(work / "package"), "-o", str(output)), output)


def emulation_config(programs: Programs, platform: str, folder: Path) -> Step:
    """emconfig.json, which says which card is emulated."""
    command = (programs.emconfigutil, "--platform", platform, "--nd", "1", "--od", str(folder))
    return Step("emconfig", command, folder / "emconfig.json")


def _common(target: str, platform: str, work: Path, step: str) -> list[str]:
    places = [("--temp_dir", "temp"), ("--log_dir", "vendor-logs"), ("--report_dir", "reports")]
    folders = [word for option, folder in places for word in (option, str(work / folder / step))]
    return ["-t", target, "--platform", platform, "--save-temps", *folders]
