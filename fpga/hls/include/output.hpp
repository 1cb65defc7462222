// SPDX-License-Identifier: Apache-2.0
// Writes what a job gives back: rounded output, tail copies, status, identity. Decides nothing.
#pragma once

#include "segments.hpp"
#include "state.hpp"

namespace nearkv {

// Three bins as one number in units of 2^-64: 50 + 64 bits and a carry.
using joined_t = exact<128>;

// Index of the highest bit that is set; 0 for zero.
inline unsigned highest_bit(const joined_t& magnitude) {
#pragma HLS INLINE
    unsigned at = 0;
HALVES:
    for (unsigned step = 64; step != 0; step /= 2) {
#pragma HLS UNROLL
        if ((magnitude >> (at + step)) != 0) at += step;
    }
    return at;
}

// b0 + b1 * 2^-32 + b2 * 2^-64 as FP32 bits, round to nearest even. Never subnormal, never infinite: the least
// magnitude is 2^-64, the largest below 2^51.
inline uint32_t round_bins(int64_t b0, int64_t b1, int64_t b2) {
#pragma HLS INLINE off
    const joined_t bin = int64_t(1) << regmap::BIN_BITS;
    const joined_t upper = joined_t(joined_t(b0) * bin) + joined_t(b1);
    const joined_t joined = joined_t(upper * bin) + joined_t(b2);
    const bool negative = joined < 0;
    const joined_t magnitude = negative ? joined_t(-joined) : joined;
    if (magnitude == 0) return 0;
    const unsigned top = highest_bit(magnitude);
    const joined_t left = magnitude << (top < 24 ? 24 - top : 0);
    // 24 bits and the one that rounds.
    const uint32_t kept = uint32_t(joined_t(left >> (top < 24 ? 0 : top - 24)));
    const joined_t above = joined_t(kept);
    const bool sticky = top > 24 && joined_t(above << (top - 24)) != magnitude;
    const bool up = (kept & 1) != 0 && (sticky || (kept & 2) != 0);
    // A carry out of the significand steps the exponent by itself.
    const uint32_t exponent = top + 127 - 64;
    return (negative ? 0x80000000u : 0u) | ((exponent << 23) + ((kept >> 1) & 0x7FFFFF) + (up ? 1 : 0));
}

inline void store_output(write_port out, const List& list, const Job& job, const State& state) {
#pragma HLS INLINE off
    constexpr unsigned PER_WORD = WORD_BYTES / 4;
    const int64_t base = word_index(job.out_addr, list.out.base);
    const uint32_t words = job.beats * (LANES / PER_WORD);
    uint32_t row = 0, w = 0;
O_WORDS:
    for (uint32_t at = 0; at < job.rows * words; ++at) {
#pragma HLS LOOP_TRIPCOUNT min = 4 max = ROWS_MAX * HEAD_MAX / PER_WORD
        word_t word = 0;
    ELEMENTS:
        for (unsigned i = 0; i < PER_WORD; ++i) {
#pragma HLS PIPELINE II = 1  // one rounder: the output is short beside the walk
            const unsigned element = w * PER_WORD + i;
            if (element < job.head_size) {
                set_u32(word, i,
                        round_bins(bin_value(state.o[row][0][element]), bin_value(state.o[row][1][element]),
                                   bin_value(state.o[row][2][element])));
            }
        }
        write_word(out, base + at, word);
        if (++w == words) {
            w = 0;
            ++row;
        }
    }
    word_t word = 0;
L_AND_T:
    for (uint32_t r = 0; r < job.rows; ++r) {
#pragma HLS LOOP_TRIPCOUNT min = 1 max = ROWS_MAX
        const unsigned lane = r % (PER_WORD / 2) * 2;
        if (lane == 0) word = 0;
        set_u32(word, lane, round_bins(bin_value(state.l[r][0]), bin_value(state.l[r][1]), bin_value(state.l[r][2])));
        set_u32(word, lane + 1, uint32_t(state.t[r]));
        if (lane + 2 == PER_WORD || r + 1 == job.rows) {
            write_word(out, base + job.rows * words + r / (PER_WORD / 2), word);
        }
    }
}

// Copies new rows to the tail on the card, byte for byte, padding included.
inline void copy_tail(read_port ctl, write_port out, const List& list, uint64_t from, uint64_t to, uint32_t words) {
#pragma HLS INLINE off
    const word_t* burst = open_burst(ctl, word_index(from, list.ctl.base), words);
    const int64_t base = word_index(to, list.out.base);
COPY:
    for (uint32_t i = 0; i < words; ++i) {
#pragma HLS LOOP_TRIPCOUNT min = 2 max = 512
#pragma HLS PIPELINE II = 1
        write_word(out, base + i, burst[i]);
    }
}

// Tail, state, output of a job that has succeeded.
inline Fault store_results(read_port ctl, write_port out, const List& list, const Job& job, const State& state) {
#pragma HLS INLINE off
    if (job.tail_k_addr != 0) {
        const uint32_t words = job.new_tokens * job.beats;
        copy_tail(ctl, out, list, job.new_k_addr, job.tail_k_addr, words);
        copy_tail(ctl, out, list, job.new_v_addr, job.tail_v_addr, words);
    }
    if (job.state_out != 0) store_state(out, list, job, state, job.state_out);
    if (job.out_addr != 0) {
        if ((job.flags & regmap::JOB_FLAG_RAW) != 0) {
            store_state(out, list, job, state, job.out_addr);
        } else {
            store_output(out, list, job, state);
        }
    }
    return bus_fault(out, regmap::STATUS_AXI_WRITE, regmap::MASTER_OUT);
}

inline Fault store_identity(write_port out, const List& list, const Job& job) {
#pragma HLS INLINE off
    namespace at = regmap::identity;
#ifndef NEARKV_BUILD
#define NEARKV_BUILD 0  // first eight hex digits of the source revision
#endif
    word_t word = 0;
    set_field(word, at::magic, regmap::IDENTITY_MAGIC);
    set_field(word, at::version, regmap::CONTRACT_VERSION);
    set_field(word, at::regmap_hash, regmap::REGMAP_HASH);
    set_field(word, at::implementation, regmap::IMPLEMENTATION_HLS);
    set_field(word, at::lanes, LANES);
    set_field(word, at::rows_max, ROWS_MAX);
    set_field(word, at::head_sizes, (1u << regmap::HEAD_SIZE_COUNT) - 1);
    set_field(word, at::element_formats, 1u << regmap::ELEMENT_FORMAT_FP16);
    set_field(word, at::opcodes, 1u << regmap::OPCODE_IDENTIFY | 1u << regmap::OPCODE_ATTEND);
    set_field(word, at::block_tokens, BLOCK);
    set_field(word, at::tile_tokens, TILE);
    set_field(word, at::build, NEARKV_BUILD);
    write_word(out, word_index(job.out_addr, list.out.base), word);
    return bus_fault(out, regmap::STATUS_AXI_WRITE, regmap::MASTER_OUT);
}

// Writes status block `index`. False when it could not be written.
inline bool store_status(write_port out, uint32_t index, uint32_t job, const Fault& fault, uint32_t flags,
                         uint64_t beats) {
#pragma HLS INLINE off
    namespace at = regmap::status;
    word_t word = 0;
    set_field(word, at::code, fault.code);
    set_field(word, at::job, job);
    set_field(word, at::segment, fault.segment);
    set_field(word, at::page, fault.page);
    set_field(word, at::kind, fault.kind);
    set_field(word, at::position, fault.position);
    set_field(word, at::detail, fault.detail);
    set_field(word, at::flags, flags);
    set_field(word, at::beats, beats);
    set_field(word, at::address, fault.address);
    clear_failure(out);
    write_word(out, index, word);
    uint64_t address = 0;
    return !port_failed(out, address);
}

}  // namespace nearkv
