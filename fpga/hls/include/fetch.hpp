// SPDX-License-Identifier: Apache-2.0
// Reads K or V of a visit into a buffer of raw words and judges the pages that end there. Converts nothing.
//
// Checked segments are read in whole pages; a page that straddles two visits keeps its checksum in `carry` between
// them.
#pragma once

#include "crc32c.hpp"
#include "visit.hpp"

namespace nearkv {

// Rows of a visit as they lie in memory: token in slot s has the words s * beats onwards.
struct RawBlock {
    word_t word[BLOCK_WORDS];
};

// A page whose last word has been read.
struct FinishedPage {
    uint32_t part;
    uint32_t page;
    uint32_t crc;
};

// A part of w words touches at most (w + 2 * (PAGE_WORDS - 1)) / PAGE_WORDS pages. Parts of one token, each across a
// page border, end the most pages: two per token.
constexpr unsigned FINISHED_MAX = 2 * BLOCK;
static_assert(BEATS_MAX + 2 * (PAGE_WORDS - 1) < 3 * PAGE_WORDS,
              "one token and what completes its pages fill two pages");
static_assert(BEATS_MAX <= 2 * PAGE_WORDS, "a further token of a part ends no more than two further pages");

inline void copy_rows(const word_t* burst, uint32_t count, uint32_t at, RawBlock& raw) {
#pragma HLS INLINE
COPY:
    for (uint32_t i = 0; i < count; ++i) {
#pragma HLS LOOP_TRIPCOUNT min = 2 max = BLOCK_WORDS
#pragma HLS PIPELINE II = 1
        raw.word[at + i] = burst[i];
    }
}

// The words of a checked part; pages that end in it are appended to `pages`. Returns the register of the last page.
inline uint32_t copy_pages(const word_t* burst, const Part& part, uint32_t part_index, uint32_t rows, uint32_t at,
                           uint32_t carry, RawBlock& raw, FinishedPage pages[FINISHED_MAX], uint32_t& finished) {
#pragma HLS INLINE
    const uint32_t count = part.head + rows + part.tail;
    uint32_t crc = carry, phase = part.phase, page = part.page;
COPY_CHECKED:
    for (uint32_t i = 0; i < count; ++i) {
#pragma HLS LOOP_TRIPCOUNT min = 2 max = BLOCK_WORDS + 2 * PAGE_WORDS
#pragma HLS PIPELINE II = 1
        const word_t word = burst[i];
        if (i >= part.head && i < part.head + rows) raw.word[at + i - part.head] = word;
        crc = crc_step(phase == 0 ? CRC_START : crc, word);
        if (++phase == PAGE_WORDS) {
            pages[finished++] = {part_index, page, ~crc};
            phase = 0;
            ++page;
        }
    }
    return crc;
}

// The checksums that the finished pages should have, against those they have.
inline Fault judge_pages(read_port ctl, const List& list, const Visit& visit, uint32_t kind,
                         const FinishedPage pages[FINISHED_MAX], uint32_t finished) {
#pragma HLS INLINE off
    Fault fault = no_fault();
    bool stopped = false;
JUDGE:
    for (uint32_t i = 0; i < finished && !stopped; ++i) {
#pragma HLS LOOP_TRIPCOUNT min = 0 max = FINISHED_MAX
        const Part& part = visit.part[pages[i].part];
        const uint64_t entry = part.crc_addr + uint64_t(pages[i].page) * regmap::page_crc::NBYTES;
        const word_t word = open_burst(ctl, word_index(entry, list.ctl.base), 1)[0];
        const unsigned lane = unsigned(entry % WORD_BYTES) / 4 + (kind == regmap::KIND_V ? 1 : 0);
        const Fault bus = bus_fault(ctl, regmap::STATUS_AXI_READ, regmap::MASTER_CTL);
        if (failed(bus)) {
            fault = bus;
            stopped = true;
        } else if (!failed(fault) && u32_at(word, lane) != pages[i].crc) {
            fault.code = regmap::STATUS_CRC_MISMATCH;
            fault.segment = part.segment;
            fault.page = pages[i].page;
            fault.kind = kind;
        }
    }
    return fault;
}

// Reads K or V (`kind`) of a visit. `carry` is the checksum register of the operand between visits, `kv_words` counts
// words read on the kv master.
inline Fault fetch(read_port kv, read_port ctl, const List& list, const Job& job, const Visit& visit, uint32_t kind,
                   uint32_t& carry, uint64_t& kv_words, RawBlock& raw) {
#pragma HLS INLINE off
    FinishedPage pages[FINISHED_MAX];
    uint32_t finished = 0;
PARTS:
    for (uint32_t i = 0; i < visit.parts; ++i) {
#pragma HLS LOOP_TRIPCOUNT min = 1 max = BLOCK
        const Part part = visit.part[i];
        const int64_t first = kind == regmap::KIND_K ? part.k_word : part.v_word;
        const uint32_t rows = part.tokens * job.beats, at = part.slot * job.beats;
        Fault bus;
        if (part.from_ctl) {
            copy_rows(open_burst(ctl, first, rows), rows, at, raw);
            bus = bus_fault(ctl, regmap::STATUS_AXI_READ, regmap::MASTER_CTL);
        } else {
            const uint32_t count = part.head + rows + part.tail;
            const word_t* burst = open_burst(kv, first - part.head, count);
            if (part.checked) {
                carry = copy_pages(burst, part, i, rows, at, carry, raw, pages, finished);
            } else {
                copy_rows(burst, rows, at, raw);
            }
            kv_words += words_read(kv, count);
            bus = bus_fault(kv, regmap::STATUS_AXI_READ, regmap::MASTER_KV);
        }
        if (failed(bus)) return bus;
    }
    return judge_pages(ctl, list, visit, kind, pages, finished);
}

}  // namespace nearkv
