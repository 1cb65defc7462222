# SPDX-License-Identifier: Apache-2.0
"""From a request to the files and steps of a build. Checks the configuration; runs and writes nothing."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from nearkv_driver import regmap
from nearkv_driver.bitstream import commands
from nearkv_driver.bitstream.commands import Programs, Step
from nearkv_driver.bitstream.errors import BuildRefused, ConfigRefused
from nearkv_driver.bitstream.finding import Finding
from nearkv_driver.bitstream.link_check import Link, check_link
from nearkv_driver.bitstream.link_file import read_link
from nearkv_driver.bitstream.link_text import link_text
from nearkv_driver.bitstream.request import Flow, Request, Target, check_path
from nearkv_driver.bitstream.sources import Sources
from nearkv_driver.bitstream.tools import Tools
from nearkv_driver.xclbin.kernel import nearkv_kernel


@dataclass(frozen=True)
class Plan:
    """All that a build does. `work` holds logs and temporary files; `config_text` goes to `config` first."""

    request: Request
    sources: Sources
    name: str
    link: Link
    frequency_mhz: int
    work: Path
    config: Path
    config_text: str
    steps: tuple[Step, ...]
    built: Path  # by the last step but emconfig, inside `work`
    notes: tuple[Finding, ...] = ()

    @property
    def xclbin(self) -> Path:
        return self.request.output.absolute() / f"{self.name}.xclbin"

    @property
    def manifest(self) -> Path:
        return self.xclbin.with_suffix(".json")

    @property
    def emulation_folder(self) -> Path:
        return self.xclbin.with_suffix(".emconfig")


def make_plan(request: Request, sources: Sources, tools: Tools | None) -> Plan:
    """Without `tools` the commands have plain names and are those of the newest Vitis that the card is known for.

    BuildRefused, or ConfigRefused with the lines, when it cannot be built.
    """
    kernel = nearkv_kernel()
    platform = request.platform
    text = _config_text(request)
    file = str(request.config or "the generated configuration")
    link, findings = check_link(text, platform, kernel)
    if link is None:
        raise ConfigRefused(file, findings)
    _agree(request, link, file)
    frequency = link.frequency_mhz or request.frequency_mhz or platform.frequency_mhz
    name = _name(request, sources, link, frequency, text)
    work = _work_folder(request.output.absolute(), name)
    for path in (sources.hls, sources.rtl):
        check_path(path)

    programs, name_or_file, version = Programs(), platform.platforms[0], platform.vitis[-1]
    if tools is not None:
        util = str(tools.emconfigutil) if tools.emconfigutil else programs.emconfigutil
        programs = Programs(str(tools.vpp.path), str(tools.vivado.path), util)
        name_or_file, version = str(tools.platform_file), tools.vpp.version
    if request.flow is Flow.HLS:
        first = commands.compile_hls(programs, sources, kernel.name, request.target, name_or_file, frequency, work)
    else:
        first = commands.package_rtl(programs, sources, kernel.name, platform.part, work)
    packaged = version not in commands.NO_PACKAGE_STEP
    built = work / "nearkv.xclbin"
    linked = work / "linked.xclbin" if packaged else built
    config = work / "link.cfg"
    clock = None if link.frequency_mhz else frequency
    steps = [first, commands.link(programs, request.target, name_or_file, config, [first.output], work, linked, clock)]
    if packaged:
        steps.append(commands.package(programs, request.target, name_or_file, linked, work, built))
    if request.target is Target.HW_EMU:
        steps.append(commands.emulation_config(programs, name_or_file, work / "emconfig"))
    return Plan(request, sources, name, link, frequency, work, config, text, tuple(steps), built, findings)


def _config_text(request: Request) -> str:
    if request.config is not None:
        return read_link(request.config)
    platform = request.platform
    return link_text(platform, nearkv_kernel(), request.cus or 1, request.frequency_mhz or platform.frequency_mhz)


def _agree(request: Request, link: Link, file: str) -> None:
    """Options and a configuration of one's own must say the same."""
    if request.cus not in (None, len(link.units)):
        raise BuildRefused(f"--cus {request.cus}, but {file} has {len(link.units)} compute units")
    if request.frequency_mhz is not None and link.frequency_mhz not in (None, request.frequency_mhz):
        raise BuildRefused(f"--frequency {request.frequency_mhz}, but {file} sets {link.frequency_mhz} MHz")


def _name(request: Request, sources: Sources, link: Link, frequency_mhz: int, text: str) -> str:
    """What decides the contents: card, flow, target, units, clock, sources, contract; a configuration of one's own."""
    parts = ["nearkv", request.platform.key, request.flow, request.target, f"{len(link.units)}cu"]
    parts += [f"{frequency_mhz}mhz", sources.revision.label, f"c{regmap.CONTRACT_VERSION}"]
    parts += [f"cfg{hashlib.sha256(text.encode()).hexdigest()[:8]}"] if request.config else []
    return "-".join(parts)


def _work_folder(output: Path, name: str) -> Path:
    """Each try has its own: logs of hours are not overwritten."""
    number = 1
    while (folder := output / f"{name}.work{number}").exists():
        number += 1
    return folder
