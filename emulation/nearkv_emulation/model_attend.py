# SPDX-License-Identifier: Apache-2.0
"""An attend job after its descriptors: inputs, the walk, the state of its rows.

Writes nothing; `model` does, once a job has succeeded.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from nearkv_driver.regmap import ALIGNED_BITS, K_EXPONENT_MIN, Q_EXPONENT_MIN, TILE_TOKENS, Kind, Status
from numpy.typing import NDArray

from nearkv_emulation.model_arith import (
    Floats,
    Ints,
    aligned,
    block_integers,
    exact_matmul,
    scaled_scores,
    weights,
)
from nearkv_emulation.model_checks import Fields, padded
from nearkv_emulation.model_descriptors import Segment, visible
from nearkv_emulation.model_memory import Fault, Master
from nearkv_emulation.model_state import State, state_from_bytes, state_nbytes
from nearkv_emulation.model_walk import operand, visits

SIGNIFICAND_WITH_SIGN = 24
# scale * log2(e) = mantissa * 2**(e - 24), q and K have their lowest bits at 2**(e - 23), a score at 2**-24.
SHIFT_BIAS = -23 - 23 - 24 + 24


def read_state(ctl: Master, job: Fields) -> State:
    """The state a job starts from. Raises Fault (bad_state)."""
    rows, d_pad = job["rows"], padded(job["head_size"])
    if not job["state_in"]:
        return State(rows, job["head_size"])
    return state_from_bytes(ctl.read(job["state_in"], state_nbytes(rows, d_pad)), rows, job["head_size"], d_pad)


def read_q(ctl: Master, job: Fields) -> Floats:
    """q [rows, head_size]. Raises Fault (nonfinite_q)."""
    rows, d_pad = job["rows"], padded(job["head_size"])
    q = ctl.read(job["q_addr"], rows * d_pad * 4).copy().view(np.float32).reshape(rows, d_pad)
    q = q[:, : job["head_size"]]
    bad = np.flatnonzero(~np.isfinite(q).all(axis=1))
    if len(bad):
        raise Fault(Status.NONFINITE_Q, kind=Kind.Q, position=int(bad[0]))
    return q.astype(np.float64)


class Attention:
    """Rows of one job that accumulate visit by visit; `saturated` once a visible score was clamped."""

    def __init__(self, job: Fields, limits: Ints, q: Floats, state: State) -> None:
        self.state = state
        self.saturated = False
        self._job = job
        self._limits = limits
        self._q, self._eq = block_integers(q, Q_EXPONENT_MIN)

    def walk(self, kv: Master, ctl: Master, segments: Sequence[Segment]) -> None:
        """Visits every token of the segments. Raises Fault."""
        for visit in visits(segments):
            k, v = (operand(kv, ctl, visit, kind, self._job["head_size"]) for kind in (Kind.K, Kind.V))
            self.visit(visit[0].position, k, v)

    def visit(self, position: int, k: Floats, v: Floats) -> None:
        """Adds tokens from `position` (a multiple of 16) on; k and v [tokens, head_size]."""
        tokens = len(k)
        token_rows = self._job["rows"] // self._job["query_tokens"]
        token_sees = visible(self._limits, self._job["window"], np.arange(position, position + tokens))
        sees: NDArray[np.bool_] = np.repeat(token_sees, token_rows, axis=0)
        if not sees.any():
            return
        mantissa, whole = weights(self._scores(k, sees))
        v_integers, v_exponent = block_integers(v, K_EXPONENT_MIN)

        # Fill the last tile with tokens that nobody sees.
        tiles = -(-tokens // TILE_TOKENS)
        fill = tiles * TILE_TOKENS - tokens
        by_tile = (self._job["rows"], tiles, TILE_TOKENS)
        seen: NDArray[np.bool_] = np.pad(sees, ((0, 0), (0, fill))).reshape(by_tile)
        mantissa, whole = (np.pad(a, ((0, 0), (0, fill))).reshape(by_tile) for a in (mantissa, whole))
        exponent = whole + np.pad(v_exponent, (0, fill)).reshape(1, tiles, TILE_TOKENS)
        v_tiles = np.pad(v_integers, ((0, fill), (0, 0))).reshape(tiles, TILE_TOKENS, -1)

        p, r = self._at_top(mantissa, exponent, seen)
        # BLAS wants [tile, row, token] @ [tile, token, element].
        x = exact_matmul(p.transpose(1, 0, 2), v_tiles, ALIGNED_BITS + 1).transpose(1, 0, 2)
        pl, rl = self._at_top(mantissa, whole, seen)
        counts: NDArray[np.bool_] = np.any(seen, axis=2)
        self.state.add(counts, r, rl, x, pl.sum(axis=2))

    def _scores(self, k: Floats, seen: NDArray[np.bool_]) -> Ints:
        k_integers, k_exponent = block_integers(k, K_EXPONENT_MIN)
        dot = exact_matmul(self._q, k_integers.T, SIGNIFICAND_WITH_SIGN)
        shift = self._eq[:, None] + k_exponent[None, :] + (self._job["scale_exponent"] + SHIFT_BIAS)
        score, clamped = scaled_scores(dot, self._job["scale_mantissa"], shift)
        self.saturated |= bool((clamped & seen).any())
        return score

    @staticmethod
    def _at_top(mantissa: Ints, exponent: Ints, seen: NDArray[np.bool_]) -> tuple[Ints, Ints]:
        """Weights aligned to the highest visible exponent of their tile, and that exponent [rows, tiles]."""
        top = np.where(seen, exponent, np.iinfo(np.int64).min).max(axis=2)
        top = np.where(seen.any(axis=2), top, 0)
        below = np.where(seen, top[:, :, None] - exponent, 0)
        return np.where(seen, aligned(mantissa, below), 0), top
