# SPDX-License-Identifier: Apache-2.0
"""One build from the first tool to the judged xclbin and its manifest. What the steps are is `plan`'s matter."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nearkv_driver.bitstream.commands import Step
from nearkv_driver.bitstream.environment import Environment
from nearkv_driver.bitstream.errors import BitstreamError, BuildRefused, ResultRefused
from nearkv_driver.bitstream.manifest import manifest
from nearkv_driver.bitstream.plan import Plan
from nearkv_driver.bitstream.reports import ReportError, Timing, Utilisation, read_timing, read_utilisation
from nearkv_driver.bitstream.request import Target
from nearkv_driver.bitstream.runner import Done, Runner
from nearkv_driver.bitstream.tools import Tools, tool_variables
from nearkv_driver.bitstream.verdict import Closure, contract_breaks, judge_timing
from nearkv_driver.xclbin.container import XclbinError, read_container
from nearkv_driver.xclbin.design import Design
from nearkv_driver.xclbin.kernel import nearkv_kernel

_REMEDY = "To take it as it is: --allow-failed-timing; else ask for a slower --frequency"


@dataclass(frozen=True)
class Outcome:
    """An xclbin that was taken, and its manifest as a document."""

    xclbin: Path
    manifest: Path
    document: dict[str, Any]


def build(plan: Plan, tools: Tools, environment: Environment, on_step: Callable[[Step, Path], None]) -> Outcome:
    """Runs the plan. `on_step` hears of each step before it starts.

    BuildRefused where something is in the way, StepFailed, or ResultRefused for a result that is kept but not taken.
    """
    _prepare(plan)
    done = Runner(plan.work, tool_variables(environment, tools)).run(plan.steps, on_step)
    return _take(plan, tools, done)


def _prepare(plan: Plan) -> None:
    for path in (plan.xclbin, plan.manifest, plan.emulation_folder, _rejected(plan)):
        if path.exists():
            raise BuildRefused(f"{path} exists; remove it or give another --output")
    try:
        plan.work.mkdir(parents=True)
        plan.config.write_text(plan.config_text)
    except OSError as error:
        raise BuildRefused(f"{plan.work} cannot be written: {error.strerror}") from error


def _take(plan: Plan, tools: Tools, done: list[Done]) -> Outcome:
    """Judges the file and gives it its name, or keeps it under another one."""
    design, identity = _read(plan)
    timing, utilisation, trouble = _reports(plan)
    verdict = judge_timing(plan.request.target, plan.frequency_mhz, timing, design, trouble)
    breaks = contract_breaks(design, nearkv_kernel(), plan.link, plan.request.target)
    late = verdict.reason if verdict.closure not in (Closure.MET, Closure.NOT_APPLICABLE) else ""
    refused = breaks + ((late,) if late and not plan.request.allow_failed_timing else ())
    data = plan.built.read_bytes()
    document = manifest(plan, tools, done, verdict, timing, utilisation, data, identity, refused)
    name = _rejected(plan) if refused else plan.xclbin
    plan.manifest.write_text(json.dumps(document, indent=2) + "\n")
    os.replace(plan.built, name)
    if plan.request.target is Target.HW_EMU:
        os.replace(plan.work / "emconfig", plan.emulation_folder)
    if refused:
        raise ResultRefused(refused, name, "" if breaks else _REMEDY)
    return Outcome(plan.xclbin, plan.manifest, document)


def _read(plan: Plan) -> tuple[Design, dict[str, str]]:
    try:
        container = read_container(plan.built)
        design = Design.of(container, str(plan.built))
    except XclbinError as error:
        raise BitstreamError(f"the tools ended well, but their xclbin cannot be read: {error}") from error
    return design, {"platform": container.header.platform, "uuid": str(container.header.uuid)}


def _reports(plan: Plan) -> tuple[Timing | None, Utilisation, str]:
    """What the reports say, and what is wrong with the one on timing."""
    folders = [plan.work / "reports" / "link", plan.work / "temp" / "link"]
    try:
        return read_timing(folders), read_utilisation(folders), ""
    except ReportError as error:
        return None, read_utilisation(folders), f"the timing report cannot be understood ({error})"


def _rejected(plan: Plan) -> Path:
    return plan.xclbin.with_name(plan.xclbin.name + ".refused")
