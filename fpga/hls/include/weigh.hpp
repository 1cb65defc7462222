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

// dot * mantissa * 2^shift, round half up, clamped to 48 bits. The product of 79 bits is kept as high * 2^24 + low, low
// without sign, so that 64-bit numbers suffice.
inline Score make_score(const dot_t& dot, uint32_t scale_mantissa, int32_t shift) {
#pragma HLS INLINE
    constexpr int64_t LEAST = -(int64_t(1) << (regmap::SCORE_BITS - 1)), MOST = -(LEAST + 1);
    constexpr int32_t PART = 24;
    const int64_t mantissa = scale_mantissa;
    const int64_t below = (int64_t(dot) & ((1 << PART) - 1)) * mantissa;
    const int64_t high = (int64_t(dot) >> PART) * mantissa + (below >> PART), low = below & ((1 << PART) - 1);
    int64_t value = 0;
    bool over = false, under = false;
    if (shift < -PART) {
        // The low part lies under the bit that rounds and cannot change the floor. |high| < 2^55: from 62 places on,
        // zero.
        const int32_t right = -shift - PART < 62 ? -shift - PART : 62;
        value = (high + (int64_t(1) << (right - 1))) >> right;
    } else if (shift < 0) {
        // |high| * 2^left is beyond 48 bits from 2^(48 - left) on.
        const int32_t right = -shift, left = PART - right;
        over = high >= int64_t(1) << (48 - left);
        under = high < -(int64_t(1) << (48 - left));
        value = over || under ? 0 : shift_left(high, left) + ((low + (int64_t(1) << (right - 1))) >> right);
    } else {
        // A product from 2^48 on is beyond 48 bits whatever the shift; anything but zero is when it moves by 48 or
        // more.
        over = high >= int64_t(1) << PART;
        under = high < -(int64_t(1) << PART);
        value = over || under ? 0 : high * (1 << PART) + low;
        const int32_t left = shift < 48 ? shift : 48;
        over = over || value > MOST >> left;
        under = under || value < (left < 48 ? LEAST >> left : 0);
        value = over || under ? 0 : shift_left(value, left);
    }
    over = over || value > MOST;
    under = under || value < LEAST;
    return {score_t(over ? MOST : under ? LEAST : value), over || under};
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

// Weights of one tile for the rows of a group; `span` holds the tokens of the block. `clamped` collects whether a
// visible score was.
template <unsigned N_ROWS, unsigned N_TILE>
void weigh_tile(const Turn& turn, const Span& span, const Job& job, dots_stream& dots,
                const exponent_t k_exponent[BLOCK], const exponent_t q_exponent[ROWS_MAX], const Sight sight[ROWS_MAX],
                Weights& weights, bool clamped[1]) {
#pragma HLS INLINE off
    if (!turn.k) return;
    bool any = clamped[0];
TOKEN:
    for (unsigned t = 0; t < N_TILE; ++t) {
        const Dots one = dots.read();
        const uint32_t slot = turn.tile * N_TILE + t, position = span.origin + slot;
        const bool here = slot >= span.low && slot < span.high;
    ROW:
        for (unsigned r = 0; r < turn.rows; ++r) {
#pragma HLS LOOP_TRIPCOUNT min = 1 max = 8
#pragma HLS PIPELINE II = 1
#pragma HLS UNROLL factor = 4  // four scale-and-exp2 units keep up with the array at d = 64
            const uint32_t row = turn.first_row + r;
            // q and K have their lowest bits at 2^(e - 23), the scale at 2^-24, a score at 2^-24.
            const int32_t shift = int32_t(q_exponent[row]) + int32_t(k_exponent[slot]) + job.scale_exponent - 46;
            const Score score = make_score(one.row[r], job.scale_mantissa, shift);
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
