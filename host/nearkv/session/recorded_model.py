# SPDX-License-Identifier: Apache-2.0
"""What a session records of its model (`models.fingerprint`), held against the model at hand. Pure; loads no model."""

from __future__ import annotations

from nearkv.models.fingerprint_digits import SETTINGS, WEIGHTS

_MARK = "+"


def difference(recorded: str, here: str) -> str:
    """In which way the model `here` is another one than the `recorded` one; empty where nothing shows that it is. The
    first sessions record nothing, later ones the weights alone."""
    if not recorded:
        return ""
    if recorded[:WEIGHTS] != here[:WEIGHTS]:
        return "weights"
    settings = _known(recorded)[WEIGHTS:]
    if settings and settings != here[WEIGHTS:]:
        return "settings (of positions, norms, windows or activations)"
    return ""


def foreign(recorded: str, mark: str) -> str:
    """As `recorded`, and like no other one without this mark: of K and V that somebody else says to be this model's.
    What records nothing goes on doing so."""
    known = _known(recorded)
    return f"{known}{_MARK}{mark}" if known else ""


def _known(recorded: str) -> str:
    return recorded[: WEIGHTS + SETTINGS].partition(_MARK)[0]
