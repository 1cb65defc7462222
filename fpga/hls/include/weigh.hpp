// SPDX-License-Identifier: Apache-2.0
// Dots to scores to weights: scale, saturate, exp2 by table (docs/arithmetic.md). No running maximum: positions are
// absolute. A token that a row does not see gets the weight zero here and counts nowhere behind.
#pragma once

#include "array.hpp"
#include "exp2_table.hpp"
#include "limits.hpp"

namespace nearkv {

// Weights of a block, by row and slot: mantissa * 2^(whole - 24), or mantissa = 0 and whole = WHOLE_EMPTY.
struct Weights {
    mantissa_t mantissa[ROWS_MAX][BLOCK];
    whole_t whole[ROWS_MAX][BLOCK];
};

struct Score {
    score_t value;
    bool clamped;
};

constexpr unsigned TABLE_SIZE = 1u << regmap::WEIGHT_TABLE_BITS;
static_assert(sizeof(EXP2_BASE) / sizeof(EXP2_BASE[0]) == TABLE_SIZE, "the exp2 table has 2^weight_table_bits entries");

// dot * mantissa * 2^shift, round half up, clamped to 48 bits.
inline Score make_score(const dot_t& dot, uint32_t scale_mantissa, int32_t shift) {
#pragma HLS INLINE
    constexpr int64_t LEAST = -(int64_t(1) << (regmap::SCORE_BITS - 1)), MOST = -(LEAST + 1);
    // Beyond 48 to the left everything but zero is clamped; beyond 80 to the right everything rounds to zero.
    constexpr int32_t LEFT_MAX = 48, RIGHT_MAX = 80;
    const scaled_t product = scaled_t(dot) * scaled_t(int32_t(scale_mantissa));
    const int32_t left = shift < 0 ? 0 : shift < LEFT_MAX ? shift : LEFT_MAX;
    const int32_t right = shift >= 0 ? 0 : -shift < RIGHT_MAX ? -shift : RIGHT_MAX;
    const shifted_t one = 1;
    const shifted_t half = right == 0 ? shifted_t(0) : shifted_t(one << (right == 0 ? 0 : right - 1));
    const shifted_t rounded = shifted_t(shifted_t(shifted_t(product) << left) + half) >> right;
    const bool low = rounded<shifted_t(LEAST), high = rounded> shifted_t(MOST);
    return {score_t(low ? LEAST : high ? MOST : int64_t(rounded)), low || high};
}

// Mantissa of 2^(fraction / 2^24): chord of the table, lowered by half its sag.
inline int32_t exp2_mantissa(uint32_t fraction) {
#pragma HLS INLINE
    constexpr unsigned REST = regmap::SCORE_FRACTION_BITS - regmap::WEIGHT_TABLE_BITS;
    constexpr uint32_t MOST = (2u << regmap::WEIGHT_FRACTION_BITS) - 1;
    const uint32_t entry = fraction >> REST, rest = fraction & ((1u << REST) - 1);
    const uint32_t value = EXP2_BASE[entry] + ((EXP2_SLOPE[entry] * rest + (1u << (REST - 1))) >> REST);
    return int32_t(value < MOST ? value : MOST);
}

struct WeighPass {
    bool active;
    uint32_t tile, first_row, rows;
    Span span;  // tokens of the block
    uint32_t scale_mantissa;
    int32_t scale_exponent;
};

// Weights of one tile for the rows of a group. `clamped` collects whether a visible score was.
template <unsigned N_ROWS, unsigned N_TILE>
void weigh_tile(const WeighPass& pass, dots_stream& dots, const Operand& k, const Query& query,
                const Sight sight[ROWS_MAX], Weights& weights, bool clamped[1]) {
#pragma HLS INLINE off
    if (!pass.active) return;
    bool any = clamped[0];
TOKEN:
    for (unsigned t = 0; t < N_TILE; ++t) {
        const Dots one = dots.read();
        const uint32_t slot = pass.tile * N_TILE + t, position = pass.span.origin + slot;
        const bool here = slot >= pass.span.low && slot < pass.span.high;
    ROW:
        for (unsigned r = 0; r < pass.rows; ++r) {
#pragma HLS LOOP_TRIPCOUNT min = 1 max = 8
#pragma HLS PIPELINE II = 1
#pragma HLS UNROLL factor = 4  // four scale-and-exp2 units keep up with the array at d = 64
            const uint32_t row = pass.first_row + r;
            // q and K have their lowest bits at 2^(e - 23), the scale at 2^-24, a score at 2^-24.
            const int32_t shift = int32_t(query.exponent[row]) + int32_t(k.exponent[slot]) + pass.scale_exponent - 46;
            const Score score = make_score(one.row[r], pass.scale_mantissa, shift);
            const bool seen = here && position >= sight[row].low && position < sight[row].high;
            const int64_t value = int64_t(score.value);
            const uint32_t fraction = uint32_t(value) & ((1u << regmap::SCORE_FRACTION_BITS) - 1);
            weights.mantissa[row][slot] = mantissa_t(seen ? exp2_mantissa(fraction) : 0);
            weights.whole[row][slot] = whole_t(seen ? int32_t(value >> regmap::SCORE_FRACTION_BITS) : WHOLE_EMPTY);
            any = any || (seen && score.clamped);
        }
    }
    clamped[0] = any;
}

}  // namespace nearkv
