// SPDX-License-Identifier: Apache-2.0
// The list header: bases, windows, number of jobs. Checks them in the order of docs/kernel-contract.md, section 1.
#pragma once

#include "fault.hpp"

namespace nearkv {

// Addresses that a master may touch.
struct Window {
    uint64_t base;
    uint64_t nbytes;
};

inline bool holds(const Window& window, uint64_t address, uint64_t nbytes) {
#pragma HLS INLINE
    return address >= window.base && nbytes <= window.nbytes && address - window.base <= window.nbytes - nbytes;
}

// An address that is needed: there, at a word, its whole range inside the window.
inline bool placed(const Window& window, uint64_t address, uint64_t nbytes) {
#pragma HLS INLINE
    return address != 0 && address % WORD_BYTES == 0 && holds(window, address, nbytes);
}

// One master as the list describes it: the value of its base pointer, and its window.
struct Reach {
    uint64_t base;
    Window window;
};

struct List {
    uint32_t jobs;
    Reach kv, ctl, out;
};

constexpr unsigned LIST_WORDS = regmap::list::NBYTES / WORD_BYTES;

inline bool base_is_valid(uint64_t base, bool in_register) {
#pragma HLS INLINE
    return in_register && base % WORD_BYTES == 0;
}

inline void check_window(FieldCheck& check, const Reach& reach, uint64_t used, const regmap::Field& start,
                         const regmap::Field& size) {
#pragma HLS INLINE
    const Window& window = reach.window;
    const bool passes_end = window.base != 0 && window.nbytes > -window.base;
    check.require(window.base % WORD_BYTES == 0, start);
    check.require(window.nbytes % WORD_BYTES == 0 && window.nbytes != 0 && !passes_end, size);
    check.require(holds(window, reach.base, 1), start);
    check.require(holds(window, reach.base, used), size);
}

// Reads and checks the header.
inline Fault load_list(read_port kv, read_port ctl, write_port out, List& list) {
#pragma HLS INLINE off
    word_t words[LIST_WORDS];
    const word_t* burst = open_burst(ctl, 0, LIST_WORDS);
READ:
    for (unsigned i = 0; i < LIST_WORDS; ++i) {
#pragma HLS PIPELINE II = 1
        words[i] = burst[i];
    }
    const Fault bus = bus_fault(ctl, regmap::STATUS_AXI_READ, regmap::MASTER_CTL);
    if (failed(bus)) return bus;

    namespace at = regmap::list;
    list.jobs = field_u32(words, at::jobs);
    list.kv = {field_u64(words, at::kv_base),
               {field_u64(words, at::kv_window), field_u64(words, at::kv_window_nbytes)}};
    list.ctl = {field_u64(words, at::ctl_base),
                {field_u64(words, at::ctl_window), field_u64(words, at::ctl_window_nbytes)}};
    list.out = {field_u64(words, at::out_base),
                {field_u64(words, at::out_window), field_u64(words, at::out_window_nbytes)}};

    FieldCheck check;
    check.require(field_u32(words, at::magic) == regmap::LIST_MAGIC, at::magic);
    check.require(field_u32(words, at::version) == regmap::CONTRACT_VERSION, at::version);
    check.require(list.jobs >= 1 && list.jobs <= regmap::JOBS_MAX, at::jobs);
    check.require_reserved(words, offset_of(at::jobs) + 4, offset_of(at::kv_base));
    check.require(base_is_valid(list.kv.base, base_register_is(kv, list.kv.base)), at::kv_base);
    check.require(base_is_valid(list.ctl.base, base_register_is(ctl, list.ctl.base)), at::ctl_base);
    check.require(base_is_valid(list.out.base, base_register_is(out, list.out.base)), at::out_base);
    const uint64_t ctl_used = regmap::list::NBYTES + uint64_t(regmap::job::NBYTES) * list.jobs;
    const uint64_t out_used = uint64_t(regmap::status::NBYTES) * list.jobs;
    check_window(check, list.kv, 0, at::kv_window, at::kv_window_nbytes);
    check_window(check, list.ctl, ctl_used, at::ctl_window, at::ctl_window_nbytes);
    check_window(check, list.out, out_used, at::out_window, at::out_window_nbytes);
    check.require_reserved(words, offset_of(at::out_window_nbytes) + 8, regmap::list::NBYTES);
    return check.verdict(regmap::STATUS_BAD_LIST);
}

}  // namespace nearkv
