// SPDX-License-Identifier: Apache-2.0
// The job descriptor and the checks of its fields: docs/kernel-contract.md, section 2. What a job points to is checked
// where it is read.
#pragma once

#include "list.hpp"

namespace nearkv {

struct Job {
    uint32_t opcode, flags, head_size, element_format, rows, query_tokens, scale_mantissa;
    int32_t scale_exponent;
    uint32_t window, segments, new_tokens, new_first;
    uint64_t q_addr, limits_addr, segments_addr, new_k_addr, new_v_addr, tail_k_addr, tail_v_addr;
    uint64_t state_in, state_out, out_addr;
    uint32_t beats;  // words of one row of K or V; not a field
};

constexpr unsigned JOB_WORDS = regmap::job::NBYTES / WORD_BYTES;

inline uint32_t beats_of(uint32_t head_size) {
#pragma HLS INLINE
    return (head_size + regmap::LANE_PAD - 1) / LANES;
}

// O int64 [rows][3][d_pad], then (L in three bins, T) int64 [rows][4], padded to words.
inline uint64_t state_nbytes(uint32_t rows, uint32_t beats) {
#pragma HLS INLINE
    return uint64_t(rows) * beats * (LANES * 8 * BINS) + round_up(rows * 8 * (BINS + 1), WORD_BYTES);
}

// O FP32 [rows, d_pad], then (L FP32, T int32) per row, padded to words.
inline uint64_t output_nbytes(uint32_t rows, uint32_t beats) {
#pragma HLS INLINE
    return uint64_t(rows) * beats * (LANES * 4) + round_up(rows * 8, WORD_BYTES);
}

inline Job parse_job(const word_t words[JOB_WORDS]) {
#pragma HLS INLINE
    namespace at = regmap::job;
    Job job;
    job.opcode = field_u32(words, at::opcode);
    job.flags = field_u32(words, at::flags);
    job.head_size = field_u32(words, at::head_size);
    job.element_format = field_u32(words, at::element_format);
    job.rows = field_u32(words, at::rows);
    job.query_tokens = field_u32(words, at::query_tokens);
    job.scale_mantissa = field_u32(words, at::scale_mantissa);
    job.scale_exponent = int32_t(field_u32(words, at::scale_exponent));
    job.window = field_u32(words, at::window);
    job.segments = field_u32(words, at::segments);
    job.new_tokens = field_u32(words, at::new_tokens);
    job.new_first = field_u32(words, at::new_first);
    job.q_addr = field_u64(words, at::q_addr);
    job.limits_addr = field_u64(words, at::limits_addr);
    job.segments_addr = field_u64(words, at::segments_addr);
    job.new_k_addr = field_u64(words, at::new_k_addr);
    job.new_v_addr = field_u64(words, at::new_v_addr);
    job.tail_k_addr = field_u64(words, at::tail_k_addr);
    job.tail_v_addr = field_u64(words, at::tail_v_addr);
    job.state_in = field_u64(words, at::state_in);
    job.state_out = field_u64(words, at::state_out);
    job.out_addr = field_u64(words, at::out_addr);
    job.beats = beats_of(job.head_size);
    return job;
}

inline bool is_head_size(uint32_t head_size) {
#pragma HLS INLINE
    bool found = false;
SIZES:
    for (unsigned i = 0; i < regmap::HEAD_SIZE_COUNT; ++i) {
#pragma HLS UNROLL
        found = found || head_size == regmap::HEAD_SIZES[i];
    }
    return found;
}

inline Fault check_identify(const Job& job, const word_t words[JOB_WORDS], const List& list) {
    namespace at = regmap::job;
    FieldCheck check;
    check.require(job.flags == 0, at::flags);
    check.require(job.head_size == 0, at::head_size);
    check.require(job.element_format == 0, at::element_format);
    check.require(job.rows == 0, at::rows);
    check.require(job.query_tokens == 0, at::query_tokens);
    check.require(job.scale_mantissa == 0, at::scale_mantissa);
    check.require(job.scale_exponent == 0, at::scale_exponent);
    check.require(job.window == 0, at::window);
    check.require(job.segments == 0, at::segments);
    check.require(job.new_tokens == 0, at::new_tokens);
    check.require(job.new_first == 0, at::new_first);
    check.require(job.q_addr == 0, at::q_addr);
    check.require(job.limits_addr == 0, at::limits_addr);
    check.require(job.segments_addr == 0, at::segments_addr);
    check.require(job.new_k_addr == 0, at::new_k_addr);
    check.require(job.new_v_addr == 0, at::new_v_addr);
    check.require(job.tail_k_addr == 0, at::tail_k_addr);
    check.require(job.tail_v_addr == 0, at::tail_v_addr);
    check.require(job.state_in == 0, at::state_in);
    check.require(job.state_out == 0, at::state_out);
    check.require(placed(list.out.window, job.out_addr, regmap::identity::NBYTES), at::out_addr);
    check.require_reserved(words, offset_of(at::out_addr) + 8, regmap::job::NBYTES);
    return check.verdict(regmap::STATUS_BAD_JOB);
}

// `new_first` of a job with new rows needs the segments and is checked after them.
inline Fault check_attend(const Job& job, const word_t words[JOB_WORDS], const List& list) {
    namespace at = regmap::job;
    const Window &ctl = list.ctl.window, &out = list.out.window;
    FieldCheck check;
    check.require((job.flags & ~regmap::JOB_FLAG_RAW) == 0, at::flags);
    check.require(is_head_size(job.head_size), at::head_size);
    check.require(job.element_format == regmap::ELEMENT_FORMAT_FP16, at::element_format);
    check.require(job.rows >= 1 && job.rows <= ROWS_MAX, at::rows);
    const bool tokens_in_range = job.query_tokens >= 1 && job.query_tokens <= TOKENS_MAX;
    check.require(tokens_in_range && job.rows % job.query_tokens == 0, at::query_tokens);
    check.require((job.scale_mantissa >> 23) == 1, at::scale_mantissa);
    check.require(job.scale_exponent >= -126 && job.scale_exponent <= 127, at::scale_exponent);
    check.require(job.window < regmap::POSITIONS_MAX, at::window);
    check.require(job.segments <= regmap::SEGMENTS_MAX, at::segments);
    check.require(job.new_tokens <= regmap::NEW_TOKENS_MAX, at::new_tokens);
    const bool has_new = job.new_tokens != 0, has_tail = has_new && job.tail_k_addr != 0;
    check.require(has_new || job.new_first == 0, at::new_first);

    const uint64_t row_nbytes = uint64_t(job.beats) * WORD_BYTES, new_nbytes = job.new_tokens * row_nbytes;
    const uint64_t limits_nbytes = uint64_t(job.query_tokens) * regmap::limit::NBYTES;
    const uint64_t segments_nbytes = uint64_t(job.segments) * regmap::segment::NBYTES;
    const uint64_t state = state_nbytes(job.rows, job.beats), output = output_nbytes(job.rows, job.beats);
    const bool raw = (job.flags & regmap::JOB_FLAG_RAW) != 0;
    check.require(placed(ctl, job.q_addr, 2 * job.rows * row_nbytes), at::q_addr);
    check.require(placed(ctl, job.limits_addr, limits_nbytes), at::limits_addr);
    check.require(job.segments ? placed(ctl, job.segments_addr, segments_nbytes) : job.segments_addr == 0,
                  at::segments_addr);
    check.require(has_new ? placed(ctl, job.new_k_addr, new_nbytes) : job.new_k_addr == 0, at::new_k_addr);
    check.require(has_new ? placed(ctl, job.new_v_addr, new_nbytes) : job.new_v_addr == 0, at::new_v_addr);
    check.require(has_tail ? placed(out, job.tail_k_addr, new_nbytes) : job.tail_k_addr == 0, at::tail_k_addr);
    check.require(has_tail ? placed(out, job.tail_v_addr, new_nbytes) : job.tail_v_addr == 0, at::tail_v_addr);
    check.require(job.state_in == 0 || placed(ctl, job.state_in, state), at::state_in);
    check.require(job.state_out == 0 || placed(out, job.state_out, state), at::state_out);
    check.require(job.out_addr == 0 || placed(out, job.out_addr, raw ? state : output), at::out_addr);
    check.require_reserved(words, offset_of(at::out_addr) + 8, regmap::job::NBYTES);
    return check.verdict(regmap::STATUS_BAD_JOB);
}

// Reads job `index` of the list and checks it.
inline Fault load_job(read_port ctl, const List& list, uint32_t index, Job& job) {
#pragma HLS INLINE off
    word_t words[JOB_WORDS];
    const word_t* burst = open_burst(ctl, LIST_WORDS + int64_t(index) * JOB_WORDS, JOB_WORDS);
READ:
    for (unsigned i = 0; i < JOB_WORDS; ++i) {
#pragma HLS PIPELINE II = 1
        words[i] = burst[i];
    }
    const Fault bus = bus_fault(ctl, regmap::STATUS_AXI_READ, regmap::MASTER_CTL);
    if (failed(bus)) return bus;
    job = parse_job(words);
    if (job.opcode == regmap::OPCODE_IDENTIFY) return check_identify(job, words, list);
    if (job.opcode == regmap::OPCODE_ATTEND) return check_attend(job, words, list);
    FieldCheck check;
    check.require(false, regmap::job::opcode);
    return check.verdict(regmap::STATUS_BAD_JOB);
}

}  // namespace nearkv
