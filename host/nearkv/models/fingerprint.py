# SPDX-License-Identifier: Apache-2.0
"""Tells one model's weights from another's of the same name and shape. Reads a sample of them, changes nothing."""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

import torch

# Enough that training, merging an adapter, or quantizing again shows in every tensor that it changed.
_SAMPLES = 1024


def weights_fingerprint(model: Any) -> str:
    """32 hexadecimal digits: of names, shapes and evenly spaced values of all parameters, whatever device and type they
    are held in as long as the type holds them exactly. A change of few single values may go unseen."""
    digest = blake2b(digest_size=16)
    for name, weight in sorted(model.named_parameters()):
        digest.update(f"{name} {tuple(weight.shape)}\n".encode())
        values = weight.detach().reshape(-1)
        sample = values[:: max(1, values.numel() // _SAMPLES)]
        digest.update(sample.to("cpu", torch.float32).contiguous().numpy().astype("<f4").tobytes())
    return digest.hexdigest()
