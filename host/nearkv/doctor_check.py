# SPDX-License-Identifier: Apache-2.0
"""The result of one check of `doctor`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Check:
    """One thing that was looked at; `found` says what is there, `fix` in one sentence what to do when it is not ok.

    A check that is not `optional` is needed for the cards that were asked for.
    """

    name: str
    ok: bool
    found: str
    fix: str = ""
    optional: bool = False
