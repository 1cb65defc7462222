// SPDX-License-Identifier: Apache-2.0
// The kernel `nearkv_attend`: processes one list of jobs (docs/kernel-contract.md). Three pointers are its only
// arguments.
#include "attend.hpp"

namespace nearkv {

// One job that is an attend; its results are written when nothing failed.
static Fault run_attend(read_port kv, read_port ctl, write_port out, const List& list, const Job& job, bool& saturated,
                        uint64_t& kv_words) {
#pragma HLS INLINE off
    Sight sight[ROWS_MAX];
    State state;
#pragma HLS ARRAY_PARTITION variable = state.o complete dim = 2
#pragma HLS ARRAY_RESHAPE variable = state.o cyclic factor = 16 dim = 3
#pragma HLS BIND_STORAGE variable = state.o type = ram_2p impl = uram  // 64 rows x 256 x 3 x 50 bits
    Query query;
#pragma HLS ARRAY_RESHAPE variable = query.beats.word complete dim = 2
#pragma HLS ARRAY_RESHAPE variable = query.beats.word complete dim = 3
#pragma HLS BIND_STORAGE variable = query.beats.word type = ram_2p impl = lutram  // 64 deep, 6144 wide
    RawBlock raw;
    bool clamped[1] = {false};

    Fault fault = load_limits(ctl, list, job, sight);
    if (failed(fault)) return fault;
    fault = check_segments(ctl, list, job);
    if (failed(fault)) return fault;
    if (job.state_in != 0) {
        fault = load_state(ctl, list, job, state);
        if (failed(fault)) return fault;
    } else {
        clear_state(job, state);
    }
    fault = load_query(ctl, list, job, raw, query);
    if (failed(fault)) return fault;
    fault = walk(kv, ctl, list, job, query, sight, state, clamped, kv_words);
    if (failed(fault)) return fault;
    saturated = clamped[0];
    return store_results(ctl, out, list, job, state);
}

static void run_list(read_port kv, read_port ctl, write_port out) {
#pragma HLS INLINE off
    List list;
    const Fault refused = load_list(kv, ctl, out, list);
    if (failed(refused)) {
        store_status(out, 0, regmap::NOT_APPLICABLE, refused, 0, 0);
        return;
    }
    bool stopped = false;
JOBS:
    for (uint32_t index = 0; index < list.jobs; ++index) {
#pragma HLS LOOP_TRIPCOUNT min = 1 max = 64
        Fault fault = make_fault(regmap::STATUS_NOT_RUN);
        bool saturated = false;
        uint64_t kv_words = 0;
        if (!stopped) {
            Job job;
            fault = load_job(ctl, list, index, job);
            if (!failed(fault) && job.opcode == regmap::OPCODE_IDENTIFY) {
                fault = store_identity(out, list, job);
            } else if (!failed(fault)) {
                fault = run_attend(kv, ctl, out, list, job, saturated, kv_words);
            }
        }
        const bool ok = !failed(fault);
        const bool stored =
            store_status(out, index, index, fault, ok && saturated ? regmap::STATUS_FLAG_SATURATED : 0, kv_words);
        stopped = stopped || !ok || !stored;
        clear_failure(kv);
        clear_failure(ctl);
    }
}

}  // namespace nearkv

extern "C" void nearkv_attend(const nearkv::word_t* kv, const nearkv::word_t* ctl, nearkv::word_t* out) {
// One bundle per argument: a port each, so that each can be linked to its own bank. K and V stream in bursts of one
// page.
#pragma HLS INTERFACE mode = m_axi port = kv bundle = kv offset = slave latency = 64 max_read_burst_length = \
    64 num_read_outstanding = 16 max_widen_bitwidth = 512 depth = 4096
#pragma HLS INTERFACE mode = m_axi port = ctl bundle = ctl offset = slave latency = 64 max_read_burst_length = \
    64 num_read_outstanding = 4 max_widen_bitwidth = 512 depth = 4096
#pragma HLS INTERFACE mode = m_axi port = out bundle = out offset = slave latency = 64 max_write_burst_length = \
    64 num_write_outstanding = 4 max_widen_bitwidth = 512 depth = 4096
#pragma HLS INTERFACE mode = s_axilite port = kv bundle = control
#pragma HLS INTERFACE mode = s_axilite port = ctl bundle = control
#pragma HLS INTERFACE mode = s_axilite port = out bundle = control
#pragma HLS INTERFACE mode = s_axilite port = return bundle = control
#pragma HLS INTERFACE mode = ap_ctrl_chain port = return
    nearkv::run_list(nearkv::bind_read(kv, nearkv::regmap::MASTER_KV),
                     nearkv::bind_read(ctl, nearkv::regmap::MASTER_CTL),
                     nearkv::bind_write(out, nearkv::regmap::MASTER_OUT));
}
