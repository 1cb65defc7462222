# SPDX-License-Identifier: Apache-2.0
"""Which tokens stored rows are of: one number per row, the caller's, or None where it was never told. Pure.

With them an index says of its rows not only how many they are but of what, so that whoever has the tokens elsewhere can
see whether the two belong together.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nearkv.errors import UserError

Ids = list[int | None]
ID_NBYTES = 4


def check_ids(tokens: Sequence[int], what: str = "token") -> list[int]:
    """UserError for the first that is no number below 2**32; `what` says whose it is."""
    found = list(tokens)
    for token in found:
        if type(token) is not int or not 0 <= token < 1 << 32:
            raise UserError(f"{what} {token!r}: whole numbers below 2**32 are allowed")
    return found


def pack(ids: Sequence[int | None], first: int, end: int) -> bytes | None:
    """Those of tokens [first, end) as the index keeps them; None unless all of them are known."""
    some = ids[first:end]
    if len(some) < end - first or None in some:
        return None
    return np.array(some, "<u4").tobytes()


def unpack(blob: bytes | None, tokens: int) -> Ids:
    """The inverse of `pack`; unknown ones for None."""
    return [None] * tokens if blob is None else np.frombuffer(blob, "<u4").tolist()


def cut(blob: bytes | None, tokens: int) -> bytes | None:
    """Of the first `tokens` rows alone."""
    return None if blob is None else blob[: tokens * ID_NBYTES]


def agreed(some: Sequence[Sequence[int | None]]) -> Ids:
    """The longest beginning in which no two differ, None differing from nothing; known where one of them knows it."""
    found: Ids = []
    for column in zip(*some, strict=False):
        known = {token for token in column if token is not None}
        if len(known) > 1:
            break
        found.append(known.pop() if known else None)
    return found


def common(ids: Sequence[int | None], tokens: Sequence[int]) -> int:
    """How many of the first `ids` are of the first `tokens`; unknown ones are of any, also behind the last token."""
    for i, token in enumerate(ids):
        if token is not None and (i >= len(tokens) or token != tokens[i]):
            return i
    return len(ids)
