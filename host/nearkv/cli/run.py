# SPDX-License-Identifier: Apache-2.0
"""What a parsed command hands to `main`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Run:
    """`call` does the work and returns the exit code; `debug` shows tracebacks of errors."""

    call: Callable[[], int]
    debug: bool = False
