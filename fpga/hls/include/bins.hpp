// SPDX-License-Identifier: Apache-2.0
// Adds tiles to the state of their rows: sums are cut at absolute multiples of 32 bits and collected in three bins
// (docs/arithmetic.md). Which bits survive depends on the largest T alone, so tiles may come in any order.
#pragma once

#include "state.hpp"
#include "tile.hpp"

namespace nearkv {

constexpr unsigned BIN_LANES = 16;  // elements of O updated per cycle
constexpr int32_t HEADROOM = 5;     // a tile's sum lies below 2^(R + 5)
static_assert(regmap::BIN_BITS == 32, "pieces are cut as halves of 64-bit words");

// The bin of a tile's top piece.
inline int32_t top_bin(int32_t exponent) {
#pragma HLS INLINE
    return (exponent + HEADROOM) >> 5;
}

struct Pieces {
    int64_t top;
    int64_t middle, bottom;  // unsigned, 32 bits
};

// x * 2^shift with 11 <= shift <= 42: x has 54 bits, its lowest at 2^(R - 48), and 2^(R + 5) lies in the top bin.
inline Pieces cut(int64_t x, uint32_t shift) {
#pragma HLS INLINE
    // Arithmetic shift right by 64 - shift in unsigned numbers, which vectorise.
    constexpr uint64_t BIAS = uint64_t(1) << (regmap::TILE_BITS - 1);
    const uint32_t right = 64 - shift;
    const uint64_t low = uint64_t(x) << shift;
    const int64_t top = int64_t((uint64_t(x) + BIAS) >> right) - int64_t(BIAS >> right);
    return {top, int64_t(low >> 32), int64_t(low & 0xFFFFFFFFu)};
}

// The sum of weights: unsigned, 31 bits, its lowest at 2^(Rl - 25), so 34 <= shift <= 65 and the bottom piece is zero.
inline Pieces cut_weight_sum(int32_t sum, uint32_t shift) {
#pragma HLS INLINE
    const uint64_t above = uint64_t(uint32_t(sum)) << (shift - 32);
    return {int64_t(above >> 32), int64_t(above & 0xFFFFFFFFu), 0};
}

// Moves the bins of a row down by `up` whole registers.
inline void move_row(State& state, uint32_t row, uint32_t elements, uint32_t up) {
#pragma HLS INLINE off
MOVE:
    for (uint32_t j = 0; j < elements; ++j) {
#pragma HLS LOOP_TRIPCOUNT min = 64 max = HEAD_MAX
#pragma HLS PIPELINE II = 1
#pragma HLS UNROLL factor = 16
        const bin_t b0 = state.o[row][0][j], b1 = state.o[row][1][j];
        state.o[row][2][j] = up == 1 ? b1 : up == 2 ? b0 : bin_t(0);
        state.o[row][1][j] = up == 1 ? b0 : bin_t(0);
        state.o[row][0][j] = 0;
    }
    const bin_t l0 = state.l[row][0], l1 = state.l[row][1];
    state.l[row][2] = up == 1 ? l1 : up == 2 ? l0 : bin_t(0);
    state.l[row][1] = up == 1 ? l0 : bin_t(0);
    state.l[row][0] = 0;
}

// Adds the sums of one tile to O of a row; its top piece belongs `down` < BINS bins under T.
inline void add_row(State& state, uint32_t row, uint32_t r, const TileSums& sums, uint32_t beats, uint32_t shift,
                    uint32_t down) {
#pragma HLS INLINE off
    // Masks instead of selects: one AND-OR per bin and lane here, and vector code for g++.
    const int64_t at_0 = down == 0 ? -1 : 0, at_1 = down == 1 ? -1 : 0, at_2 = down == 2 ? -1 : 0;
BEAT:
    for (uint32_t b = 0; b < beats; ++b) {
#pragma HLS LOOP_TRIPCOUNT min = 2 max = BEATS_MAX
    ELEMENT:
        for (unsigned i = 0; i < LANES; ++i) {
#pragma HLS PIPELINE II = 1
#pragma HLS UNROLL factor = 16
            const uint64_t j = uint64_t(b) * LANES + i;
            const Pieces pieces = cut(int64_t(sums.beat[b][r][i]), shift);
            state.o[row][0][j] += pieces.top & at_0;
            state.o[row][1][j] += (pieces.middle & at_0) | (pieces.top & at_1);
            state.o[row][2][j] += (pieces.bottom & at_0) | (pieces.middle & at_1) | (pieces.top & at_2);
        }
    }
}

inline void add_weight_sum(State& state, uint32_t row, const Pieces& pieces, uint32_t down) {
#pragma HLS INLINE
    state.l[row][0] += down == 0 ? pieces.top : 0;
    state.l[row][1] += down == 0 ? pieces.middle : down == 1 ? pieces.top : 0;
    state.l[row][2] += down == 0 ? pieces.bottom : down == 1 ? pieces.middle : down == 2 ? pieces.top : 0;
}

template <unsigned N_ROWS>
void add_tile(const Turn& turn, heads_stream& heads, const TileSums& sums, State& state) {
#pragma HLS INLINE off
    if (!turn.v) return;
ROW:
    for (unsigned r = 0; r < turn.rows; ++r) {
#pragma HLS LOOP_TRIPCOUNT min = 1 max = 8
        const TileHead head = heads.read();
        if (!head.seen) continue;
        const uint32_t row = turn.first_row + r;
        const int32_t o_top = top_bin(int32_t(head.r)), l_top = top_bin(int32_t(head.rl));
        const int32_t tile_t = o_top > l_top ? o_top : l_top;
        int32_t t = state.t[row];
        if (tile_t > t) {
            // T differs by more than 32 bits can hold only when the row is empty, and then there is nothing to move.
            const bool empty = t == regmap::EMPTY_T;
            const uint32_t up = empty ? BINS : uint32_t(tile_t - t);
            if (!empty) move_row(state, row, turn.beats * LANES, up < BINS ? up : BINS);
            state.t[row] = t = tile_t;
        }
        const uint32_t o_down = uint32_t(t - o_top), l_down = uint32_t(t - l_top);
        if (o_down < BINS)
            add_row(state, row, r, sums, turn.beats, uint32_t(int32_t(head.r) - 32 * o_top + 16), o_down);
        const uint32_t l_shift = uint32_t(int32_t(head.rl) - 32 * l_top + 39);
        add_weight_sum(state, row, cut_weight_sum(int32_t(head.weight_sum), l_shift), l_down);
    }
}

}  // namespace nearkv
