// SPDX-License-Identifier: Apache-2.0
// The query rows as block integers, in the order in which the array takes them.
#pragma once

#include "decode.hpp"

namespace nearkv {

// Row r is lane r % ROWS of group r / ROWS; a group has the beats group * beats onwards.
struct QueryBeats {
    significand_t word[GROUPS_MAX * BEATS_MAX][ROWS][LANES];
};

struct Query {
    QueryBeats beats;
    exponent_t exponent[ROWS_MAX];
};

constexpr unsigned FLOATS_PER_WORD = WORD_BYTES / 4;
static_assert(ROWS_MAX * HEAD_MAX / FLOATS_PER_WORD <= BLOCK_WORDS, "q of a job fits the buffer of raw words");

// FP32: 8 exponent bits; a subnormal counts as exponent 1.
inline uint32_t float_exponent(uint32_t bits) {
#pragma HLS INLINE
    return bits >> 23 & 255;
}

// Element of a row whose largest exponent field is `top`: round half up at 2^(top - 126 - 23). A significand of 24 ones
// would round up to 2^23 and is clamped.
inline int32_t float_element(uint32_t bits, uint32_t top) {
#pragma HLS INLINE
    const uint32_t field = float_exponent(bits);
    const uint32_t below = top - (field != 0 ? field : 1);
    const int32_t magnitude = int32_t((bits & 0x7FFFFF) | (field != 0 ? 0x800000 : 0));
    const int32_t significand = (bits >> 31) != 0 ? -magnitude : magnitude;
    const int32_t rounded = ((significand >> (below < 31 ? below : 31)) + 1) >> 1;
    return rounded < 0x7FFFFF ? rounded : 0x7FFFFF;
}

// Rows that complete the last group: zeros, so that nothing undefined enters the array.
inline void clear_query_row(uint32_t row, const Job& job, Query& query) {
#pragma HLS INLINE off
CLEAR:
    for (uint32_t b = 0; b < job.beats; ++b) {
#pragma HLS LOOP_TRIPCOUNT min = 2 max = BEATS_MAX
#pragma HLS PIPELINE II = 1
        for (unsigned i = 0; i < LANES; ++i) {
#pragma HLS UNROLL
            query.beats.word[row / ROWS * job.beats + b][row % ROWS][i] = 0;
        }
    }
    query.exponent[row] = 0;
}

// One row; false when one of the first `head_size` elements is Inf or NaN.
inline bool decode_query_row(const RawBlock& raw, uint32_t row, const Job& job, Query& query) {
#pragma HLS INLINE off
    const uint32_t words = job.beats * (LANES / FLOATS_PER_WORD);
    uint32_t top = 1;
TOP:
    for (uint32_t w = 0; w < words; ++w) {
#pragma HLS LOOP_TRIPCOUNT min = 4 max = 2 * BEATS_MAX
#pragma HLS PIPELINE II = 1
        for (unsigned i = 0; i < FLOATS_PER_WORD; ++i) {
#pragma HLS UNROLL
            const bool valid = w * FLOATS_PER_WORD + i < job.head_size;
            const uint32_t field = valid ? float_exponent(u32_at(raw.word[row * words + w], i)) : 0;
            top = field > top ? field : top;
        }
    }
ELEMENTS:
    for (uint32_t w = 0; w < words; ++w) {
#pragma HLS LOOP_TRIPCOUNT min = 4 max = 2 * BEATS_MAX
#pragma HLS PIPELINE II = 1
        for (unsigned i = 0; i < FLOATS_PER_WORD; ++i) {
#pragma HLS UNROLL
            const unsigned element = w * FLOATS_PER_WORD + i;
            const int32_t value = float_element(u32_at(raw.word[row * words + w], i), top);
            query.beats.word[row / ROWS * job.beats + element / LANES][row % ROWS][element % LANES] =
                significand_t(element < job.head_size ? value : 0);
        }
    }
    query.exponent[row] = exponent_t(int32_t(top) - 126);
    return top != 255;
}

// Reads all of q, then judges it row by row.
inline Fault load_query(read_port ctl, const List& list, const Job& job, RawBlock& raw, Query& query) {
#pragma HLS INLINE off
    const uint32_t words = job.rows * job.beats * (LANES / FLOATS_PER_WORD);
    copy_rows(open_burst(ctl, word_index(job.q_addr, list.ctl.base), words), words, 0, raw);
    Fault fault = bus_fault(ctl, regmap::STATUS_AXI_READ, regmap::MASTER_CTL);
    if (failed(fault)) return fault;
ROWS_OF_Q:
    for (uint32_t row = 0; row < job.rows; ++row) {
#pragma HLS LOOP_TRIPCOUNT min = 1 max = ROWS_MAX
        if (!decode_query_row(raw, row, job, query) && !failed(fault)) {
            fault.code = regmap::STATUS_NONFINITE_Q;
            fault.kind = regmap::KIND_Q;
            fault.position = row;
        }
    }
FILL:
    for (uint32_t row = job.rows; row < round_up(job.rows, ROWS); ++row) {
#pragma HLS LOOP_TRIPCOUNT min = 0 max = ROWS - 1
        clear_query_row(row, job, query);
    }
    return fault;
}

}  // namespace nearkv
