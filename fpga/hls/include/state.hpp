// SPDX-License-Identifier: Apache-2.0
// What rows accumulate, (O, L, T), and how it is read and written (docs/kernel-contract.md, "What is written").
#pragma once

#include "job.hpp"

namespace nearkv {

// Bin b of a row has weight 2^(32 * (t - b)); t = EMPTY_T while the row has seen nothing, all bins zero.
struct State {
    bin_t o[ROWS_MAX][BINS][HEAD_MAX];
    bin_t l[ROWS_MAX][BINS];
    int32_t t[ROWS_MAX];
};

constexpr unsigned BINS_PER_WORD = WORD_BYTES / 8;
constexpr unsigned BIN_WORDS_PER_BEAT = LANES / BINS_PER_WORD;
constexpr unsigned ROWS_PER_WORD = BINS_PER_WORD / (BINS + 1);  // of L and T
static_assert(ROWS_PER_WORD * (BINS + 1) == BINS_PER_WORD, "L and T of a row lie in one word");

// The 50 bits of a bin's register with their sign.
inline int64_t bin_value(const bin_t& bin) {
#pragma HLS INLINE
    constexpr int SPARE = 64 - int(regmap::BIN_REGISTER_BITS);
    return int64_t(uint64_t(int64_t(bin)) << SPARE) >> SPARE;
}

inline bool fits_bin(int64_t value) {
#pragma HLS INLINE
    return value >> (regmap::BIN_REGISTER_BITS - 1) == 0 || value >> (regmap::BIN_REGISTER_BITS - 1) == -1;
}

inline void clear_state(const Job& job, State& state) {
#pragma HLS INLINE off
ROW:
    for (uint32_t row = 0; row < job.rows; ++row) {
#pragma HLS LOOP_TRIPCOUNT min = 1 max = ROWS_MAX
    ELEMENT:
        for (uint32_t i = 0; i < job.beats * LANES; ++i) {
#pragma HLS LOOP_TRIPCOUNT min = 64 max = HEAD_MAX
#pragma HLS PIPELINE II = 1
#pragma HLS UNROLL factor = 16
            for (unsigned bin = 0; bin < BINS; ++bin) state.o[row][bin][i] = 0;
        }
        for (unsigned bin = 0; bin < BINS; ++bin) {
#pragma HLS UNROLL
            state.l[row][bin] = 0;
        }
        state.t[row] = regmap::EMPTY_T;
    }
}

// Whether T and the bins of a row can be a state: empty with zero bins, or T in range and every bin in its register.
inline bool is_state(int64_t t, bool fits, bool zero) {
#pragma HLS INLINE
    const int64_t limit = regmap::STATE_T_LIMIT;
    return (t == regmap::EMPTY_T && zero) || (t > -limit && t < limit && fits);
}

// Reads all of state_in, then judges it row by row. Padding is not looked at and becomes zero.
inline Fault load_state(read_port ctl, const List& list, const Job& job, State& state) {
#pragma HLS INLINE off
    const uint32_t row_words = BINS * job.beats * BIN_WORDS_PER_BEAT;
    const uint32_t o_words = job.rows * row_words, last_words = (job.rows + ROWS_PER_WORD - 1) / ROWS_PER_WORD;
    const word_t* burst = open_burst(ctl, word_index(job.state_in, list.ctl.base), o_words + last_words);
    const Fault bus = bus_fault(ctl, regmap::STATUS_AXI_READ, regmap::MASTER_CTL);
    if (failed(bus)) return bus;

    bool fits[ROWS_MAX], zero[ROWS_MAX];
    uint32_t row = 0, bin = 0, w = 0;
    bool row_fits = true, row_zero = true;
O_WORDS:
    for (uint32_t at = 0; at < o_words; ++at) {
#pragma HLS LOOP_TRIPCOUNT min = 24 max = ROWS_MAX * BINS * BEATS_MAX * BIN_WORDS_PER_BEAT
#pragma HLS PIPELINE II = 1
        const word_t word = burst[at];
        for (unsigned i = 0; i < BINS_PER_WORD; ++i) {
#pragma HLS UNROLL
            const bool valid = w * BINS_PER_WORD + i < job.head_size;
            const int64_t value = valid ? int64_t(u64_at(word, i)) : 0;
            row_fits = row_fits && fits_bin(value);
            row_zero = row_zero && value == 0;
            state.o[row][bin][w * BINS_PER_WORD + i] = bin_t(value);
        }
        fits[row] = row_fits;
        zero[row] = row_zero;
        if (++w == job.beats * BIN_WORDS_PER_BEAT) {
            w = 0;
            if (++bin == BINS) {
                bin = 0;
                ++row;
                row_fits = row_zero = true;
            }
        }
    }
    Fault fault = no_fault();
L_AND_T:
    for (uint32_t r = 0; r < job.rows; ++r) {
#pragma HLS LOOP_TRIPCOUNT min = 1 max = ROWS_MAX
        const word_t word = burst[o_words + r / ROWS_PER_WORD];
        const unsigned first = r % ROWS_PER_WORD * (BINS + 1);
        bool all_fit = fits[r], all_zero = zero[r];
        for (unsigned b = 0; b < BINS; ++b) {
#pragma HLS UNROLL
            const int64_t value = int64_t(u64_at(word, first + b));
            all_fit = all_fit && fits_bin(value);
            all_zero = all_zero && value == 0;
            state.l[r][b] = bin_t(value);
        }
        const int64_t t = int64_t(u64_at(word, first + BINS));
        state.t[r] = int32_t(t);
        if (!is_state(t, all_fit, all_zero) && !failed(fault)) {
            fault.code = regmap::STATUS_BAD_STATE;
            fault.kind = regmap::KIND_STATE;
            fault.position = r;
        }
    }
    return fault;
}

// Writes the state at `address`.
inline void store_state(write_port out, const List& list, const Job& job, const State& state, uint64_t address) {
#pragma HLS INLINE off
    const int64_t base = word_index(address, list.out.base);
    const uint32_t o_words = job.rows * BINS * job.beats * BIN_WORDS_PER_BEAT;
    uint32_t row = 0, bin = 0, w = 0;
O_WORDS:
    for (uint32_t at = 0; at < o_words; ++at) {
#pragma HLS LOOP_TRIPCOUNT min = 24 max = ROWS_MAX * BINS * BEATS_MAX * BIN_WORDS_PER_BEAT
#pragma HLS PIPELINE II = 1
        word_t word = 0;
        for (unsigned i = 0; i < BINS_PER_WORD; ++i) {
#pragma HLS UNROLL
            const unsigned element = w * BINS_PER_WORD + i;
            set_u64(word, i, element < job.head_size ? uint64_t(bin_value(state.o[row][bin][element])) : 0);
        }
        write_word(out, base + at, word);
        if (++w == job.beats * BIN_WORDS_PER_BEAT) {
            w = 0;
            if (++bin == BINS) {
                bin = 0;
                ++row;
            }
        }
    }
L_AND_T:
    for (uint32_t r = 0; r < job.rows; r += ROWS_PER_WORD) {
#pragma HLS LOOP_TRIPCOUNT min = 1 max = ROWS_MAX / ROWS_PER_WORD
        word_t word = 0;
        for (unsigned i = 0; i < ROWS_PER_WORD; ++i) {
#pragma HLS UNROLL
            if (r + i < job.rows) {
                for (unsigned b = 0; b < BINS; ++b) {
                    set_u64(word, i * (BINS + 1) + b, uint64_t(bin_value(state.l[r + i][b])));
                }
                set_u64(word, i * (BINS + 1) + BINS, uint64_t(int64_t(state.t[r + i])));
            }
        }
        write_word(out, base + o_words + r / ROWS_PER_WORD, word);
    }
}

}  // namespace nearkv
