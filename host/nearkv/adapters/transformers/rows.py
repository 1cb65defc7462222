# SPDX-License-Identifier: Apache-2.0
"""Turn a chunk's K or V into the stored format, FP16, and check that it fits. Stores nothing."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from nearkv.adapters.transformers.errors import ValueOutOfRange

_INEXACT_POSSIBLE = (torch.bfloat16,)


def to_half(
    x: torch.Tensor, valid: NDArray[np.bool_] | None, *, layer: int, name: str
) -> tuple[NDArray[np.float16], int]:
    """[batch, heads, n, d] as FP16, and how many BF16 elements did not convert exactly.

    FP32 is rounded to nearest: FP16 is the format that is stored. BF16 has fewer significand bits, so only elements
    below 2^-17 can lose any; they are counted. Rows that are not valid become zero and are not checked. Raises
    ValueOutOfRange for NaN and for what FP16 cannot hold.
    """
    source = x.detach().to("cpu")
    if valid is not None:
        source = source.masked_fill(~torch.from_numpy(valid)[:, None, :, None], 0.0)
    half = source.to(torch.float16).contiguous()
    finite = torch.isfinite(half)
    if not finite.all():
        batch, head, token, element = (int(i) for i in torch.nonzero(~finite)[0])
        where = f"sequence {batch}, head {head}, token {token} of the chunk, element {element}"
        raise ValueOutOfRange(layer, name, float(source[batch, head, token, element]), where)
    inexact = int((half.to(source.dtype) != source).sum()) if source.dtype in _INEXACT_POSSIBLE else 0
    array: NDArray[np.float16] = half.numpy()
    return array, inexact
