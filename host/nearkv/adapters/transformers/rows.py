# SPDX-License-Identifier: Apache-2.0
"""Turn a chunk's K or V into the stored format, FP16, on the model's device, and check on the host that it fitted.

FP32 is rounded to nearest: FP16 is the format that is stored. BF16 has fewer significand bits, so only elements below
2^-17 can lose any; they are counted. Stores nothing.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from nearkv.adapters.transformers.errors import ValueOutOfRange

_EXPONENT = np.uint16(0x7C00)


def halve(x: torch.Tensor) -> torch.Tensor:
    """[batch, heads, n, d] as FP16; what does not fit becomes Inf, which `check` finds."""
    return x.detach().to(torch.float16)


def inexact(x: torch.Tensor, half: torch.Tensor, valid: NDArray[np.bool_] | None) -> torch.Tensor:
    """How many BF16 elements of valid rows did not convert exactly, as a number on the device."""
    if x.dtype != torch.bfloat16:
        return torch.zeros((), dtype=torch.int64, device=x.device)
    different = half.to(x.dtype) != x.detach()
    if valid is not None:
        different &= torch.from_numpy(valid).to(x.device)[:, None, :, None]
    return different.sum()


def check(
    half: NDArray[np.float16], source: torch.Tensor, valid: NDArray[np.bool_] | None, *, layer: int, name: str
) -> None:
    """Rows that are not valid become zero; ValueOutOfRange for NaN and for what FP16 cannot hold in the others."""
    if valid is not None:
        half.transpose(0, 2, 1, 3)[~valid] = 0
    bad = (half.view(np.uint16) & _EXPONENT) == _EXPONENT
    if bad.any():
        batch, head, token, element = (int(i) for i in np.argwhere(bad)[0])
        where = f"sequence {batch}, head {head}, token {token} of the chunk, element {element}"
        raise ValueOutOfRange(layer, name, float(source.detach()[batch, head, token, element]), where)
