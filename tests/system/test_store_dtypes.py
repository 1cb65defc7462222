# SPDX-License-Identifier: Apache-2.0
"""Elements survive the drive bit for bit, as what they are; a store for another kind of element is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from nearkv.errors import UserError
from nearkv.kvstore import KVStore
from nearkv.volume_errors import VolumeMismatch
from numpy.typing import NDArray

from tests.support.stores import layout, urls

TOKENS = 75  # two units and a partial one
VALUES = [188.0, 436.0, 0.1621, 3e38, 1e-38, -0.0]


def words() -> NDArray[np.uint16]:
    """The values as BF16, by rounding to nearest even, over [1, kv_heads, tokens, head_size]."""
    bits = np.array(VALUES, np.float32).view(np.uint32)
    rounded = ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)
    return np.resize(rounded, (1, 2, TOKENS, 64))


def opened(folder: Path, dtype: str) -> KVStore:
    return KVStore.open(layout(dtype=dtype), urls(2, folder, kernel="model"))


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_every_bit_is_there_again(tmp_path: Path, dtype: str) -> None:
    halves = np.resize(np.array([65504, 6e-8, -0.0, 1], np.float16), (1, 2, TOKENS, 64))
    k: Any = words() if dtype == "bfloat16" else halves
    v = k[:, :, ::-1].copy()
    with opened(tmp_path, dtype) as store:
        sequence = store.add_sequence("a")
        for layer in range(2):
            store.append(layer, [sequence], k, v)
        store.crop(sequence, TOKENS - 1)
        for layer in range(2):
            store.append(layer, [sequence], k[:, :, -1:], v[:, :, -1:])
        store.fork_named(sequence, "b")
    with opened(tmp_path, dtype) as store:
        for name in ("a", "b"):
            sequence = store.open_sequence(name)
            for layer in range(2):
                for got, wanted in zip(store.read(layer, sequence), (k, v), strict=True):
                    assert got.dtype == wanted.dtype
                    np.testing.assert_array_equal(got.view(np.uint16), wanted[0].view(np.uint16))


def test_the_other_dtype_is_refused_with_both_names(tmp_path: Path) -> None:
    with opened(tmp_path, "bfloat16") as store:
        store.add_sequence("a")
    with pytest.raises(VolumeMismatch, match="holds dtype = 'bfloat16', this store has 'float16'"):
        opened(tmp_path, "float16")


def test_attention_on_bfloat16_and_words_that_are_no_number_are_refused(tmp_path: Path) -> None:
    with opened(tmp_path, "bfloat16") as store:
        sequence = store.add_sequence()
        k = words()
        with pytest.raises(TypeError, match="given as uint16 words"):
            store.append(0, [sequence], k.view(np.float16), k.view(np.float16))
        with pytest.raises(UserError, match=r"dtype = 'bfloat16'.*attention takes float16"):
            store.attend(0, [sequence], np.zeros((1, 4, 1, 64), np.float32), scale=0.125)
        k[0, 1, 7, 3] = 0x7F80
        with pytest.raises(UserError, match="KV head 1, new token 7: K holds inf; stored values are finite bfloat16"):
            store.append(0, [sequence], k, k)
        assert store.length(sequence) == 0
