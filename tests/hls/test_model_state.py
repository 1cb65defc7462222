# SPDX-License-Identifier: Apache-2.0
"""The bins of the model: order of tiles, width of registers, what a higher T keeps."""

from __future__ import annotations

import numpy as np
import pytest
from nearkv_driver.regmap import EMPTY_T, POSITIONS_MAX, TILE_TOKENS
from nearkv_emulation.model_state import State, output_bytes, state_bytes, state_from_bytes

ROWS, HEAD_SIZE, D_PAD = 3, 80, 96


def random_tiles(rng: np.random.Generator, tiles: int, spread: int) -> list[tuple[np.ndarray, ...]]:
    """(seen, r, rl, x, w) per tile, each with one tile."""
    made = []
    for _ in range(tiles):
        rl = rng.integers(-spread, spread, (ROWS, 1))
        r = rl + rng.integers(-13, 17, (ROWS, 1))
        x = rng.integers(-(2**53), 2**53, (ROWS, 1, HEAD_SIZE))
        w = rng.integers(2**25, 2**30, (ROWS, 1))
        made.append((rng.random((ROWS, 1)) < 0.8, r, rl, x, w))
    return made


def total(tiles: list[tuple[np.ndarray, ...]], group: int = 1) -> bytes:
    state = State(ROWS, HEAD_SIZE)
    for a in range(0, len(tiles), group):
        state.add(*(np.concatenate(column, axis=1) for column in zip(*tiles[a : a + group], strict=True)))
    return state_bytes(state, D_PAD).tobytes()


@pytest.mark.parametrize("spread", [1, 20, 40, 100, 5000])
def test_state_does_not_depend_on_the_order_of_tiles(spread: int) -> None:
    for seed in range(20):
        rng = np.random.default_rng(seed)
        tiles = random_tiles(rng, 12, spread)
        expected = total(tiles)
        for group in (1, 3, 8, 12):
            shuffled = [tiles[i] for i in rng.permutation(len(tiles))]
            assert total(shuffled, group) == expected, f"seed {seed}"


def test_state_survives_its_own_bytes_at_any_point() -> None:
    for seed in range(20):
        tiles = random_tiles(np.random.default_rng(seed), 10, 60)
        state = State(ROWS, HEAD_SIZE)
        for tile in tiles:
            state.add(*tile)
            state = state_from_bytes(state_bytes(state, D_PAD), ROWS, HEAD_SIZE, D_PAD)
        assert state_bytes(state, D_PAD).tobytes() == total(tiles), f"seed {seed}"


def test_registers_hold_the_most_tiles_there_can_be() -> None:
    """2**17 tiles with every piece at its largest stay inside 50 bits."""
    tiles = POSITIONS_MAX // TILE_TOKENS
    assert tiles == 2**17
    for largest in (tiles * (2**32 - 1), -tiles * 2**32):
        assert -(2**49) <= largest < 2**49


def test_a_register_wraps_where_an_input_state_fills_it() -> None:
    state = State(1, 1)
    state.t[:] = 0
    state.o[0, 0, 0] = 2**49 - 1
    one = np.array([[[2**48]]])  # 2**(r - 48) per unit: 2**0 at r = 0
    state.add(np.array([[True]]), np.array([[0]]), np.array([[0]]), one, np.array([[2**25]]))
    assert state.wrapped()[0][0, 0, 0] == -(2**49)


def test_an_empty_state_has_no_bits_set_but_t() -> None:
    state = State(2, 64)
    assert state_bytes(state, 64)[: 2 * 3 * 64 * 8].max() == 0
    output = output_bytes(state, 64)
    assert output[: 2 * 64 * 4].max() == 0
    assert output[2 * 64 * 4 :].view(np.int32)[:4].tolist() == [0, EMPTY_T, 0, EMPTY_T]
