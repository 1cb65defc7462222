# SPDX-License-Identifier: Apache-2.0
"""What can go wrong with a build: what was asked (ValueError), the tools, a step, the result."""

from __future__ import annotations

from pathlib import Path

from nearkv_driver.bitstream.finding import Finding
from nearkv_driver.errors import DriverError


class BuildRefused(ValueError):
    """What was asked cannot be built; no tool has run."""


class ConfigRefused(BuildRefused):
    """A link configuration that breaks a rule; `findings` name the lines."""

    def __init__(self, file: str, findings: tuple[Finding, ...]) -> None:
        errors = [finding for finding in findings if finding.is_error]
        more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
        super().__init__(f"{errors[0].at(file)}{more}; no tool was started")
        self.file, self.findings = file, findings


class BitstreamError(DriverError):
    """Base of what tools and results do wrong."""


class ToolUnusable(BitstreamError):
    """A tool or platform is missing or of a wrong version; the text says what was found and what is needed."""


class StepFailed(BitstreamError):
    """A step ended with an error: `step`, `exit_code`, its log and the last errors in it."""

    def __init__(self, step: str, exit_code: int, log: Path, lines: tuple[str, ...], hint: str = "") -> None:
        ended = f"was ended by signal {-exit_code}" if exit_code < 0 else f"failed with exit code {exit_code}"
        last = f"; last: {lines[-1]}" if lines else ""
        super().__init__(f"step {step} {ended}; log: {log}{last}" + (f"; {hint}" if hint else ""))
        self.step, self.exit_code, self.log, self.lines, self.hint = step, exit_code, log, lines, hint


class ResultRefused(BitstreamError):
    """The tools ended well, but the xclbin is not taken; `kept` is where it lies, `reasons` say why."""

    def __init__(self, reasons: tuple[str, ...], kept: Path, remedy: str) -> None:
        super().__init__(f"the xclbin is refused: {'; '.join(reasons)}. It is kept as {kept}. {remedy}".rstrip())
        self.reasons, self.kept = reasons, kept
