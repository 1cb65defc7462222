// SPDX-License-Identifier: Apache-2.0
// Segments of K and V: their descriptors, the checks of docs/kernel-contract.md, sections 4 and 5, and the new rows of
// a job as the last segment. Reads no K or V.
#pragma once

#include "job.hpp"

namespace nearkv {

struct Segment {
    uint32_t tokens, first_position;
    uint64_t k_addr, v_addr, crc_addr;
};

inline uint32_t end_of(const Segment& segment) {
#pragma HLS INLINE
    return segment.first_position + segment.tokens;
}

// How many segments the walk sees: the new rows are the last one.
inline uint32_t walk_segments(const Job& job) {
#pragma HLS INLINE
    return job.segments + (job.new_tokens != 0 ? 1 : 0);
}

inline Segment new_rows(const Job& job) {
#pragma HLS INLINE
    return {job.new_tokens, job.new_first, job.new_k_addr, job.new_v_addr, 0};
}

// At a multiple of a tile or exactly where the segment before ended (`before`; 1 is neither when there is none), and
// below the last position.
inline bool starts_well(uint32_t first, uint32_t tokens, uint32_t before) {
#pragma HLS INLINE
    const bool in_range = first <= regmap::POSITIONS_MAX && tokens <= regmap::POSITIONS_MAX - first;
    return in_range && (first % TILE == 0 || first == before);
}

constexpr uint32_t NO_SEGMENT_BEFORE = 0;  // a multiple of a tile: adds nothing to what may start there

// The whole pages that `nbytes` from `address` on touch lie inside the window.
inline bool pages_held(const Window& window, uint64_t address, uint64_t nbytes) {
#pragma HLS INLINE
    const uint64_t phase = address % regmap::PAGE_BYTES;
    return holds(window, address - phase, round_up(phase + nbytes, regmap::PAGE_BYTES));
}

inline Fault check_segment(const Segment& segment, const word_t word[1], uint32_t before, const Job& job,
                           const List& list) {
    namespace at = regmap::segment;
    const Window &kv = list.kv.window, &ctl = list.ctl.window;
    const uint64_t nbytes = uint64_t(segment.tokens) * job.beats * WORD_BYTES;
    const uint64_t phase = segment.k_addr % regmap::PAGE_BYTES;
    const uint64_t pages = round_up(phase + nbytes, regmap::PAGE_BYTES) / regmap::PAGE_BYTES;
    const bool unchecked = segment.crc_addr == 0;
    FieldCheck check;
    check.require(segment.tokens != 0, at::tokens);
    check.require(starts_well(segment.first_position, segment.tokens, before), at::first_position);
    check.require(placed(kv, segment.k_addr, nbytes), at::k_addr);
    check.require(placed(kv, segment.v_addr, nbytes), at::v_addr);
    check.require(unchecked || segment.crc_addr % regmap::page_crc::NBYTES == 0, at::crc_addr);
    check.require(unchecked || phase == segment.v_addr % regmap::PAGE_BYTES, at::crc_addr);
    check.require(unchecked || pages_held(kv, segment.k_addr, nbytes), at::crc_addr);
    check.require(unchecked || pages_held(kv, segment.v_addr, nbytes), at::crc_addr);
    check.require(unchecked || holds(ctl, segment.crc_addr, pages * regmap::page_crc::NBYTES), at::crc_addr);
    check.require_reserved(word, offset_of(at::crc_addr) + 8, regmap::segment::NBYTES);
    return check.verdict(regmap::STATUS_BAD_SEGMENT);
}

inline Segment parse_segment(const word_t word[1]) {
#pragma HLS INLINE
    namespace at = regmap::segment;
    return {field_u32(word, at::tokens), field_u32(word, at::first_position), field_u64(word, at::k_addr),
            field_u64(word, at::v_addr), field_u64(word, at::crc_addr)};
}

// Segment `index` of the walk; job.segments stands for the new rows. Not checked.
inline Segment load_segment(read_port ctl, const List& list, const Job& job, uint32_t index) {
#pragma HLS INLINE off
    if (index == job.segments) return new_rows(job);
    word_t word[1];
    word[0] = open_burst(ctl, word_index(job.segments_addr, list.ctl.base) + index, 1)[0];
    return parse_segment(word);
}

// Checks every segment, and where the new rows start, before anything of K or V is read.
inline Fault check_segments(read_port ctl, const List& list, const Job& job) {
#pragma HLS INLINE off
    uint32_t before = NO_SEGMENT_BEFORE;
    Fault fault = no_fault();
SEGMENTS:
    for (uint32_t i = 0; i < job.segments && !failed(fault); ++i) {
#pragma HLS LOOP_TRIPCOUNT min = 0 max = 1024
        word_t word[1];
        word[0] = open_burst(ctl, word_index(job.segments_addr, list.ctl.base) + i, 1)[0];
        fault = bus_fault(ctl, regmap::STATUS_AXI_READ, regmap::MASTER_CTL);
        if (!failed(fault)) {
            const Segment segment = parse_segment(word);
            fault = check_segment(segment, word, before, job, list);
            if (failed(fault)) fault.segment = i;
            before = end_of(segment);
        }
    }
    if (!failed(fault) && job.new_tokens != 0) {
        FieldCheck check;
        check.require(starts_well(job.new_first, job.new_tokens, before), regmap::job::new_first);
        fault = check.verdict(regmap::STATUS_BAD_JOB);
    }
    return fault;
}

}  // namespace nearkv
