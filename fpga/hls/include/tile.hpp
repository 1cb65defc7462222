// SPDX-License-Identifier: Apache-2.0
// Aligns the weights of a tile to its largest exponents, so that its sums are exact (docs/arithmetic.md).
#pragma once

#include "weigh.hpp"

namespace nearkv {

// Exponents of a tile for one row: R of the products with V, Rl of the weights alone; and the sum of the weights, in
// units of 2^(Rl - 25).
struct TileHead {
    bool seen;
    tile_exponent_t r, rl;
    weight_sum_t weight_sum;
};

using heads_stream = hls::stream<TileHead, ROWS>;

// A mantissa `below` >= 0 places under the top: 26 bits, round half up. From 27 places on the result is zero.
inline int32_t align_mantissa(int32_t mantissa, int32_t below) {
#pragma HLS INLINE
    const uint32_t places = below < 31 ? uint32_t(below) : 31;
    const uint32_t half = (1u << places) >> 1;
    return int32_t(((uint32_t(mantissa) << 1) + half) >> places);
}

// Weights aligned for the products go to `aligned`, what else a tile needs to `heads`.
template <unsigned N_ROWS, unsigned N_TILE>
void align_tile(const Turn& turn, const Weights& weights, const exponent_t v_exponent[BLOCK], TileWeights& aligned,
                heads_stream& heads) {
#pragma HLS INLINE off
    if (!turn.v) return;
FILL:
    for (unsigned r = turn.rows; r < N_ROWS; ++r) {
#pragma HLS LOOP_TRIPCOUNT min = 0 max = 7
        for (unsigned t = 0; t < N_TILE; ++t) {
#pragma HLS UNROLL
            aligned.row[r][t] = 0;
        }
    }
ROW:
    for (unsigned r = 0; r < turn.rows; ++r) {
#pragma HLS LOOP_TRIPCOUNT min = 1 max = 8
#pragma HLS PIPELINE II = 2
        const uint32_t row = turn.first_row + r, first = turn.tile * N_TILE;
        // Tokens that the row does not see lie far below all others, with or without their exponent of V, and their
        // mantissa of zero stays zero however it is moved.
        int32_t r_top = WHOLE_EMPTY, rl_top = WHOLE_EMPTY;
    TOP:
        for (unsigned t = 0; t < N_TILE; ++t) {
#pragma HLS UNROLL
            const int32_t whole = int32_t(weights.whole[row][first + t]);
            const int32_t product = whole + int32_t(v_exponent[first + t]);
            rl_top = whole > rl_top ? whole : rl_top;
            r_top = product > r_top ? product : r_top;
        }
        int32_t sum = 0;
    ALIGN:
        for (unsigned t = 0; t < N_TILE; ++t) {
#pragma HLS UNROLL
            const int32_t mantissa = int32_t(weights.mantissa[row][first + t]);
            const int32_t whole = int32_t(weights.whole[row][first + t]);
            aligned.row[r][t] = aligned_t(align_mantissa(mantissa, r_top - whole - int32_t(v_exponent[first + t])));
            sum += align_mantissa(mantissa, rl_top - whole);
        }
        heads.write({rl_top != WHOLE_EMPTY, tile_exponent_t(r_top), tile_exponent_t(rl_top), weight_sum_t(sum)});
    }
}

}  // namespace nearkv
