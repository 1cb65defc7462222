# SPDX-License-Identifier: Apache-2.0
"""Whether stored K and V are of the tokens that a session's journal has. Pure; mends nothing.

K and V become durable only when the journal has their tokens durably, and a crop takes them away before the journal
says so. So whatever a crash leaves of a journal has at least the tokens of the rows. Rows of more tokens, or of others,
say that records were lost after they had been durable, or that an older journal was put back.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from nearkv.token_ids import common
from nearkv.volume_errors import VolumeDamaged


class JournalMisfit(VolumeDamaged):
    """`stored` tokens have K and V, the journal has `tokens`, and the first `alike` of both are the same."""

    def __init__(self, path: Path, *, stored: int, tokens: int, alike: int) -> None:
        super().__init__(misfit_text(stored, tokens, alike), path=str(path))
        self.stored, self.tokens, self.alike = stored, tokens, alike


def misfit_text(stored: int, tokens: int, alike: int) -> str:
    """What is told of rows and a journal that do not belong together."""
    return (
        f"the volumes hold K and V of {stored} tokens, the journal has {tokens} tokens, and only the first {alike} are "
        "the same: records were lost, or an older journal was put back. Put the newer one back, or drop K and V from "
        "there on: nearkv sessions verify NAME --repair drop"
    )


def fitting(held: Sequence[int | None], tokens: Sequence[int]) -> int:
    """How many of the rows, which are of tokens `held`, are of the journal's: all of them where the two belong
    together. Rows of unknown tokens (of volumes of format 2) fit always."""
    return common(held, tokens)


def check_fit(path: Path, held: Sequence[int | None], tokens: Sequence[int]) -> None:
    """JournalMisfit where the rows and the journal at `path`, which has `tokens`, do not belong together."""
    alike = fitting(held, tokens)
    if alike < len(held):
        raise JournalMisfit(path, stored=len(held), tokens=len(tokens), alike=alike)
