# SPDX-License-Identifier: Apache-2.0
"""What a log says of a failure: its last errors, and advice for failures that others have met and solved."""

from __future__ import annotations

import re
from pathlib import Path

_ERRORS, _LINES = 5, 5
_TAIL_NBYTES = 1 << 20
_ERROR = re.compile(r"^\s*(ERROR|FATAL|CRITICAL WARNING|error)\b|: error:|^\S*Error:", re.ASCII)
# Text in a log, and what to do. The numbers are those of public issues.
_KNOWN = (
    (
        "cf2sw",
        "known on the SmartSSD with Vitis 2021.2 (Vitis_Accel_Examples #85): try 2021.1 or 2022.1",
    ),
    (
        "sched_v30.bin",
        "known where XRT was built by oneself: install the vendor's XRT package, which has sched_v30.bin",
    ),
    ("No space left on device", "the file system of the output or of /tmp is full"),
    (
        "Failed to checkout license",
        "a licence is missing: the parts of Alveo cards need none, other parts may",
    ),
)


def last_errors(log: Path) -> tuple[str, ...]:
    """The last error lines; the last lines where none is marked as an error."""
    lines = [line.strip() for line in _tail(log).splitlines() if line.strip()]
    marked = [line for line in lines if _ERROR.search(line)]
    return tuple(marked[-_ERRORS:] or lines[-_LINES:])


def hint(log: Path) -> str:
    """Advice where the log shows a known failure; else empty."""
    text = _tail(log)
    return "; ".join(advice for sign, advice in _KNOWN if sign in text)


def _tail(log: Path) -> str:
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - _TAIL_NBYTES))
        return file.read().decode(errors="replace")
