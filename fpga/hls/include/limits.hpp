// SPDX-License-Identifier: Apache-2.0
// Which positions each row sees. Reads and checks the `limit` structures: docs/kernel-contract.md, section 3.
#pragma once

#include "job.hpp"

namespace nearkv {

// A row sees the positions in [low, high).
struct Sight {
    uint32_t low, high;
};

constexpr unsigned LIMITS_PER_WORD = WORD_BYTES / regmap::limit::NBYTES;
constexpr unsigned LIMIT_WORDS = TOKENS_MAX / LIMITS_PER_WORD;

// position >= first, and with a window position + window >= limit.
inline Sight make_sight(uint32_t first, uint32_t limit, uint32_t window) {
#pragma HLS INLINE
    const uint32_t windowed = window != 0 && limit > window ? limit - window : 0;
    return {first > windowed ? first : windowed, limit};
}

inline Fault load_limits(read_port ctl, const List& list, const Job& job, Sight sight[ROWS_MAX]) {
#pragma HLS INLINE off
    word_t words[LIMIT_WORDS];
    const uint32_t count = (job.query_tokens + LIMITS_PER_WORD - 1) / LIMITS_PER_WORD;
    const word_t* burst = open_burst(ctl, word_index(job.limits_addr, list.ctl.base), count);
READ:
    for (unsigned i = 0; i < count; ++i) {
#pragma HLS LOOP_TRIPCOUNT min = 1 max = LIMIT_WORDS
#pragma HLS PIPELINE II = 1
        words[i] = burst[i];
    }
    const Fault bus = bus_fault(ctl, regmap::STATUS_AXI_READ, regmap::MASTER_CTL);
    if (failed(bus)) return bus;

    const uint32_t rows_per_token = job.rows / job.query_tokens;
    uint32_t row = 0;
TOKENS:
    for (unsigned token = 0; token < job.query_tokens; ++token) {
#pragma HLS LOOP_TRIPCOUNT min = 1 max = TOKENS_MAX
        const unsigned lane = token % LIMITS_PER_WORD * 2;
        const uint32_t first = u32_at(words[token / LIMITS_PER_WORD], lane + regmap::limit::first.lsb / 32);
        const uint32_t limit = u32_at(words[token / LIMITS_PER_WORD], lane + regmap::limit::limit.lsb / 32);
        FieldCheck check;
        check.require(first <= regmap::POSITIONS_MAX, regmap::limit::first);
        check.require(limit <= regmap::POSITIONS_MAX, regmap::limit::limit);
        Fault fault = check.verdict(regmap::STATUS_BAD_LIMIT);
        fault.position = token;
        if (failed(fault)) return fault;
    SHARE:
        for (unsigned i = 0; i < rows_per_token; ++i) {
#pragma HLS LOOP_TRIPCOUNT min = 1 max = ROWS_MAX
            sight[row++] = make_sight(first, limit, job.window);
        }
    }
    return no_fault();
}

}  // namespace nearkv
