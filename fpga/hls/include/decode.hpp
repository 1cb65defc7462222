// SPDX-License-Identifier: Apache-2.0
// Floating-point rows to block integers: one exponent per row, signed 24-bit elements (docs/arithmetic.md). The only
// place that knows an element format; nothing behind it does.
#pragma once

#include "fetch.hpp"

namespace nearkv {

// A block of K or V: token in slot s has the beats s * beats onwards; value = element * 2^(exponent - 23).
struct Beats {
    significand_t word[BLOCK_WORDS][LANES];
};

struct Operand {
    Beats beats;
    exponent_t exponent[BLOCK];
};

constexpr uint16_t HALF_EXPONENT = 0x7C00;  // exponent field of an FP16 element, 10 bits up

// Element of a row whose largest exponent field is `top` (both 10 bits up; a subnormal counts as exponent 1): signed,
// round half up at 2^(top - 14 - 23). Worked out with one bit more, which rounds.
inline int32_t half_element(uint16_t bits, uint16_t top) {
#pragma HLS INLINE
    constexpr uint16_t HIDDEN = 0x400;
    const uint16_t field = bits & HALF_EXPONENT;
    const uint16_t magnitude = (bits & 0x3FF) | (field != 0 ? HIDDEN : 0);
    const uint16_t below = uint16_t(top - (field > HIDDEN ? field : HIDDEN)) >> 10;
    const int16_t minus = -int16_t(bits >> 15);
    const int16_t significand = int16_t(magnitude ^ minus) - minus;
    return (((int32_t(significand) * (1 << 13)) >> below) + 1) >> 1;
}

// The elements of one beat, of which the first `valid` count; the others become zero.
inline void read_halves(const word_t& word, uint16_t valid, uint16_t half[LANES]) {
#pragma HLS INLINE
HALVES:
    for (uint16_t i = 0; i < LANES; ++i) {
#pragma HLS UNROLL
        const uint16_t bits = half_at(word, i);
        half[i] = i < valid ? bits : uint16_t(0);
    }
}

// One row of FP16 of which the first `head_size` elements count. False when one of them is Inf or NaN.
inline bool decode_row(const RawBlock& raw, uint32_t at, uint32_t beats, uint32_t head_size, Operand& operand,
                       uint32_t slot) {
#pragma HLS INLINE off
    uint16_t half[BEATS_MAX][LANES];
#pragma HLS ARRAY_PARTITION variable = half complete dim = 2
    uint16_t lane_top[LANES];
#pragma HLS ARRAY_PARTITION variable = lane_top complete
    for (unsigned i = 0; i < LANES; ++i) {
#pragma HLS UNROLL
        lane_top[i] = 0x400;
    }
TOP:
    for (uint32_t b = 0; b < beats; ++b) {
#pragma HLS LOOP_TRIPCOUNT min = 2 max = BEATS_MAX
#pragma HLS PIPELINE II = 1
        read_halves(raw.word[at + b], uint16_t(head_size - b * LANES), half[b]);
        for (unsigned i = 0; i < LANES; ++i) {
#pragma HLS UNROLL
            const uint16_t field = half[b][i] & HALF_EXPONENT;
            lane_top[i] = field > lane_top[i] ? field : lane_top[i];
        }
    }
    uint16_t top = 0;
LARGEST:
    for (unsigned i = 0; i < LANES; ++i) {
#pragma HLS UNROLL
        top = lane_top[i] > top ? lane_top[i] : top;
    }
ELEMENTS:
    for (uint32_t b = 0; b < beats; ++b) {
#pragma HLS LOOP_TRIPCOUNT min = 2 max = BEATS_MAX
#pragma HLS PIPELINE II = 1
        for (unsigned i = 0; i < LANES; ++i) {
#pragma HLS UNROLL
            operand.beats.word[at + b][i] = significand_t(half_element(half[b][i], top));
        }
    }
    operand.exponent[slot] = exponent_t(int32_t(top >> 10) - 14);
    return top != HALF_EXPONENT;
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
            operand.beats.word[at + b][i] = 0;
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
