# SPDX-License-Identifier: Apache-2.0
"""The oracle: exact attention in float64, which every other form is compared with.

Written for clarity; holds all scores of a KV head in memory. Not used to answer anyone.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]


def visible(positions: NDArray[np.int64], limits: ArrayLike, window: int = 0) -> NDArray[np.bool_]:
    """What each query token sees, [query_tokens, positions], by its (first, limit) in `limits`."""
    first, limit = np.asarray(limits, np.int64).reshape(-1, 2).T[:, :, None]
    seen: NDArray[np.bool_] = (positions >= first) & (positions < limit)
    return seen & (positions + window >= limit) if window else seen


def attend_rows(
    q: ArrayLike, k: ArrayLike, v: ArrayLike, seen: NDArray[np.bool_], scale: float
) -> tuple[Floats, Floats]:
    """(out [rows, dv], lse [rows]) of q [rows, d] over k [tokens, d], v [tokens, dv], where `seen` [rows, tokens].

    A row that sees nothing gives zeros and minus infinity.
    """
    q, k, v = (np.asarray(x, np.float64) for x in (q, k, v))
    score = np.where(seen, q @ k.T * scale, -np.inf)
    top = score.max(axis=1, initial=-np.inf)
    some = np.isfinite(top)
    weight = np.exp(score - np.where(some, top, 0)[:, None])
    total = np.where(some, weight.sum(axis=1), 1)
    out = weight @ v / total[:, None]
    return out, np.where(some, np.log(total) + top, -np.inf)


def attend_head(
    q: ArrayLike,
    k: ArrayLike,
    v: ArrayLike,
    *,
    scale: float,
    limits: ArrayLike | None = None,
    window: int = 0,
    positions: ArrayLike | None = None,
) -> tuple[Floats, Floats]:
    """Rows that share one KV head, token-major: row r belongs to query token r // (rows // query_tokens).

    limits: one (first, limit) per query token; without, one query token sees everything. positions: of the tokens of k
    and v, by default 0, 1, 2 and so on.
    """
    q, k = np.asarray(q, np.float64), np.asarray(k, np.float64)
    at = np.arange(len(k)) if positions is None else np.asarray(positions, np.int64)
    if limits is None:
        limits = [(0, int(at.max(initial=-1)) + 1)]
    seen = visible(at, limits, window)
    if len(q) % max(len(seen), 1):
        raise ValueError(f"{len(q)} rows cannot be shared by {len(seen)} query tokens")
    return attend_rows(q, k, v, np.repeat(seen, len(q) // len(seen), axis=0), scale)


def attend(
    q: ArrayLike,
    k: Sequence[ArrayLike],
    v: Sequence[ArrayLike],
    *,
    scale: float,
    window: int = 0,
    causal: bool = True,
) -> tuple[Floats, Floats]:
    """A ragged batch: q [batch, query_heads, n, d]; k[b] and v[b] [kv_heads, length of b, d].

    With `causal`, query token i of n sees all but the last n - 1 - i tokens of its sequence: the mask is aligned to the
    end, and a token that lies before the start of a short sequence sees nothing. Without, each sees every token.
    Returns out [batch, query_heads, n, dv] and lse [batch, query_heads, n].
    """
    q = np.asarray(q, np.float64)
    batch, query_heads, n, _ = q.shape
    if not len(k) == len(v) == batch:
        raise ValueError(f"q has a batch of {batch}, k of {len(k)}, v of {len(v)}")
    out = np.zeros((batch, query_heads, n, np.shape(v[0])[-1] if batch else q.shape[3]))
    lse = np.full((batch, query_heads, n), -np.inf)
    for b in range(batch):
        kb, vb = np.asarray(k[b], np.float64), np.asarray(v[b], np.float64)
        if query_heads % len(kb):
            raise ValueError(f"{query_heads} query heads cannot share {len(kb)} KV heads")
        length = kb.shape[1]
        ends = [max(0, length - (n - 1 - i) if causal else length) for i in range(n)]
        seen = visible(np.arange(length), [(0, end) for end in ends], window)
        for h in range(query_heads):
            kv_head = h // (query_heads // len(kb))
            out[b, h], lse[b, h] = attend_rows(q[b, h], kb[kv_head], vb[kv_head], seen, scale)
    return out, lse
