# SPDX-License-Identifier: Apache-2.0
"""Families of attention inputs with known trouble in them, and the error of a kernel on them against float64."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from nearkv import reference
from nearkv_driver import regmap as rm
from nearkv_emulation.kernel import Kernel
from numpy.typing import NDArray

from tests.support.jobs import Job, Segment, build, padded

Rng = np.random.Generator
Floats = NDArray[np.float64]


def _every(step: int, factor: float, head_size: int) -> Floats:
    return np.where(np.arange(head_size) % step == 0, factor, 1.0)


def _normal(rng: Rng, s: int, d: int) -> tuple[Floats, Floats, Floats]:
    return rng.normal(size=(1, d)), rng.normal(size=(s, d)), rng.normal(size=(s, d))


def _small_v(rng: Rng, s: int, d: int) -> tuple[Floats, Floats, Floats]:
    q, k, v = _normal(rng, s, d)
    return q, k, 1e-3 * v


def _peaked(rng: Rng, s: int, d: int) -> tuple[Floats, Floats, Floats]:
    q, k, v = _normal(rng, s, d)
    return 4 * q, 2 * k, v


def _sink(rng: Rng, s: int, d: int) -> tuple[Floats, Floats, Floats]:
    """The first token takes most of the weight and says next to nothing."""
    q, k, v = _normal(rng, s, d)
    k[0] = q[0]
    v[0] *= 0.01
    return q, k, v


def _outliers_q_k(rng: Rng, s: int, d: int) -> tuple[Floats, Floats, Floats]:
    q, k, v = _normal(rng, s, d)
    return q * _every(17, 20, d), k * _every(17, 8, d), v


def _outliers_k_v(rng: Rng, s: int, d: int) -> tuple[Floats, Floats, Floats]:
    q, k, v = _normal(rng, s, d)
    return q, k * _every(17, 20, d), v * _every(19, 30, d)


def _cancelling_v(rng: Rng, s: int, d: int) -> tuple[Floats, Floats, Floats]:
    q, k, v = _normal(rng, s, d)
    sign = np.where(np.arange(s) % 2 == 0, 1.0, -1.0)[:, None]
    return 0.02 * q, k, sign * (1 + 0.01 * v)


FAMILIES: dict[str, Callable[[Rng, int, int], tuple[Floats, Floats, Floats]]] = {
    "normal": _normal,
    "small V": _small_v,
    "peaked": _peaked,
    "sink": _sink,
    "outliers in q, K": _outliers_q_k,
    "outliers in K, V": _outliers_k_v,
    "cancelling V": _cancelling_v,
}
BOUND = 1e-7  # relative to the RMS of sum(w|v|), before the output is rounded; docs/arithmetic.md


def inputs(
    family: str, tokens: int, head_size: int, seed: int
) -> tuple[NDArray[np.float32], NDArray[np.float16], NDArray[np.float16]]:
    """q [1, d], k and v [tokens, d]; all FP16 values."""
    q, k, v = FAMILIES[family](np.random.default_rng(seed), tokens, head_size)
    return q.astype(np.float16).astype(np.float32), k.astype(np.float16), v.astype(np.float16)


def attended(
    kernel: Kernel, q: NDArray[np.float32], k: NDArray[np.float16], v: NDArray[np.float16], scale: float
) -> Floats:
    """Attention of a kernel before output rounding: its integers, divided in float64."""
    image = build([Job(q, [(0, len(k))], scale, [Segment(0, k, v)], raw=True)])
    memory = image.run(kernel)
    status = image.statuses(memory)[0]
    if status["code"] != rm.Status.OK:
        raise RuntimeError(f"the job ended with {status}")
    words = np.frombuffer(image.state(memory, 0, "out_addr"), np.int64)
    weight = 2.0 ** np.array([0, -32, -64])
    rows, d_pad = len(q), padded(q.shape[1])
    o = np.einsum("rbd,b->rd", words[: rows * 3 * d_pad].reshape(rows, 3, d_pad), weight)
    last = words[rows * 3 * d_pad :][: rows * 4].reshape(rows, 4)
    found: Floats = o[:, : q.shape[1]] / (last[:, :3] @ weight)[:, None]
    return found


def relative_error(
    out: Floats, q: NDArray[np.float32], k: NDArray[np.float16], v: NDArray[np.float16], scale: float
) -> float:
    """RMS error of `out` against the oracle, relative to the RMS of the sum of w|v|."""
    exact, _ = reference.attend_head(q, k, v, scale=scale)
    size, _ = reference.attend_head(q, k, np.abs(v), scale=scale)
    return float(np.sqrt(((out - exact) ** 2).mean() / (size**2).mean()))
