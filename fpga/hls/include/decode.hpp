// SPDX-License-Identifier: Apache-2.0
// Floating-point rows to block integers: one exponent per row, signed 24-bit elements (docs/arithmetic.md). The only
// place that knows an element format; nothing behind it does.
#pragma once

#include "fetch.hpp"

namespace nearkv {

// A block of K or V: token in slot s has the beats s * beats onwards; value = element * 2^(exponent - 23).
struct Operand {
    significand_t beat[BLOCK_WORDS][LANES];
    exponent_t exponent[BLOCK];
};

// 5 exponent bits of an FP16 element; a subnormal counts as exponent 1.
inline uint32_t half_exponent(uint32_t bits) {
#pragma HLS INLINE
    return bits >> 10 & 31;
}

// Signed significand with its hidden bit, moved up by 13: room for the rounding bit and 12 places.
inline int32_t half_significand(uint32_t bits) {
#pragma HLS INLINE
    const uint32_t magnitude = (bits & 0x3FF) | (half_exponent(bits) != 0 ? 0x400 : 0);
    const int32_t moved = int32_t(magnitude << 13);
    return (bits & 0x8000) != 0 ? -moved : moved;
}

// Element of a row whose largest exponent field is `top`: round half up at 2^(top - 14 - 23).
inline int32_t half_element(uint32_t bits, uint32_t top) {
#pragma HLS INLINE
    const uint32_t field = half_exponent(bits);
    const uint32_t below = top - (field != 0 ? field : 1);
    return ((half_significand(bits) >> below) + 1) >> 1;
}

// One row of FP16 of which the first `head_size` elements count. False when one of them is Inf or NaN.
inline bool decode_row(const RawBlock& raw, uint32_t at, uint32_t beats, uint32_t head_size, Operand& operand,
                       uint32_t slot) {
#pragma HLS INLINE off
    uint32_t top = 1;
TOP:
    for (uint32_t b = 0; b < beats; ++b) {
#pragma HLS LOOP_TRIPCOUNT min = 2 max = BEATS_MAX
#pragma HLS PIPELINE II = 1
        const uint32_t valid = head_size - b * LANES;
        for (unsigned i = 0; i < LANES; ++i) {
#pragma HLS UNROLL
            const uint32_t field = i < valid ? half_exponent(half_at(raw.word[at + b], i)) : 0;
            top = field > top ? field : top;
        }
    }
ELEMENTS:
    for (uint32_t b = 0; b < beats; ++b) {
#pragma HLS LOOP_TRIPCOUNT min = 2 max = BEATS_MAX
#pragma HLS PIPELINE II = 1
        const uint32_t valid = head_size - b * LANES;
        for (unsigned i = 0; i < LANES; ++i) {
#pragma HLS UNROLL
            const int32_t element = half_element(half_at(raw.word[at + b], i), top);
            operand.beat[at + b][i] = significand_t(i < valid ? element : 0);
        }
    }
    operand.exponent[slot] = exponent_t(int32_t(top) - 14);
    return top != 31;
}

// Tokens of the outermost tiles that the visit does not bring: zeros, so that nothing undefined enters the array.
inline void clear_row(uint32_t at, uint32_t beats, Operand& operand, uint32_t slot) {
#pragma HLS INLINE off
CLEAR:
    for (uint32_t b = 0; b < beats; ++b) {
#pragma HLS LOOP_TRIPCOUNT min = 2 max = BEATS_MAX
#pragma HLS PIPELINE II = 1
        for (unsigned i = 0; i < LANES; ++i) {
#pragma HLS UNROLL
            operand.beat[at + b][i] = 0;
        }
    }
    operand.exponent[slot] = 0;
}

// Converts the tokens of a visit. The fault names the first token with an Inf or NaN.
inline Fault decode(const RawBlock& raw, const Visit& visit, const Job& job, uint32_t kind, Operand& operand) {
#pragma HLS INLINE off
    const uint32_t low = visit.span.low, high = visit.span.high;
    uint32_t bad = BLOCK;
TOKENS:
    for (uint32_t slot = low / TILE * TILE; slot < round_up(high, TILE); ++slot) {
#pragma HLS LOOP_TRIPCOUNT min = TILE max = BLOCK
        const uint32_t at = slot * job.beats;
        if (slot < low || slot >= high) {
            clear_row(at, job.beats, operand, slot);
        } else if (!decode_row(raw, at, job.beats, job.head_size, operand, slot) && bad == BLOCK) {
            bad = slot;
        }
    }
    Fault fault = no_fault();
    if (bad == BLOCK) return fault;
    fault.code = regmap::STATUS_NONFINITE_KV;
    fault.kind = kind;
    fault.position = visit.span.origin + bad;
OWNER:
    for (uint32_t i = 0; i < visit.parts; ++i) {
#pragma HLS LOOP_TRIPCOUNT min = 1 max = BLOCK
        if (visit.part[i].slot <= bad) fault.segment = visit.part[i].segment;
    }
    return fault;
}

}  // namespace nearkv
