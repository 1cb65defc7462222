# SPDX-License-Identifier: Apache-2.0
"""Keys of extents: the same for two sessions exactly when tokens up to there, model, weights, layout and tenant are.
Pure.

A key is a digest of the key before it and the extent's tokens, so it stands for the whole prefix. The tenant's salt is
secret and random: who does not have it can neither make a key nor learn from one what another tenant stored.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from hashlib import blake2b

import numpy as np

from nearkv.layout import ModelLayout

_NBYTES = 16


def extent_keys(layout: ModelLayout, salt: bytes, tokens: Sequence[int], weights: str = "") -> list[bytes]:
    """One key for each whole extent of `tokens`, from the first on."""
    root = json.dumps([2, asdict(layout), weights], sort_keys=True).encode()
    key = blake2b(root, key=salt, digest_size=_NBYTES).digest()
    size, keys = layout.extent_tokens, []
    for first in range(0, len(tokens) - size + 1, size):
        key = blake2b(key + np.array(tokens[first : first + size], "<u4").tobytes(), digest_size=_NBYTES).digest()
        keys.append(key)
    return keys
