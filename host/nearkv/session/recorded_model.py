# SPDX-License-Identifier: Apache-2.0
"""What a session records of its model (`models.fingerprint`), held against the model at hand. Pure; loads no model."""

from __future__ import annotations

_WEIGHTS_DIGITS, _DIGITS = 32, 48
_MARK = "+"


def difference(recorded: str, here: str) -> str:
    """In which way the model `here` is another one than the `recorded` one; empty where nothing shows that it is. The
    first sessions record nothing, later ones the weights alone."""
    if not recorded:
        return ""
    if recorded[:_WEIGHTS_DIGITS] != here[:_WEIGHTS_DIGITS]:
        return "weights"
    settings = _known(recorded)[_WEIGHTS_DIGITS:]
    if settings and settings != here[_WEIGHTS_DIGITS:]:
        return "settings (of positions, norms, windows or activations)"
    return ""


def foreign(recorded: str, mark: str) -> str:
    """As `recorded`, and like no other one without this mark: of K and V that somebody else says to be this model's.
    What records nothing goes on doing so."""
    known = _known(recorded)
    return f"{known}{_MARK}{mark}" if known else ""


def _known(recorded: str) -> str:
    return recorded[:_DIGITS].partition(_MARK)[0]
