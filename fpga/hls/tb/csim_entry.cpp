// SPDX-License-Identifier: Apache-2.0
// C entry of the functional emulator: runs the kernel over memory regions. One call at a time per thread; threads are
// independent of each other.
#include <exception>

#include "attend.hpp"

extern "C" void nearkv_attend(const nearkv::word_t* kv, const nearkv::word_t* ctl, nearkv::word_t* out);

// `regions` lists what the kv master reaches, then ctl, then out; `counts` says how many there are of each. `registers`
// are the values of KV, CTL, OUT. Returns 0, or 1 with a sentence in `message` when the kernel broke an assumption of
// its own (NEARKV_CHECKED builds).
extern "C" int nearkv_csim_run(const nearkv_csim::Region* regions, const uint64_t counts[3],
                               const uint64_t registers[3], char* message, uint64_t message_nbytes) {
    nearkv_csim::Port kv(regions, counts[0], registers[0]);
    nearkv_csim::Port ctl(regions + counts[0], counts[1], registers[1]);
    nearkv_csim::Port out(regions + counts[0] + counts[1], counts[2], registers[2]);
    nearkv_csim::current_masters() = {{&kv, &ctl, &out}};
    int result = 0;
    try {
        nearkv_attend(nullptr, nullptr, nullptr);
    } catch (const std::exception& broken) {
        result = 1;
        if (message_nbytes != 0) {
            std::strncpy(message, broken.what(), message_nbytes - 1);
            message[message_nbytes - 1] = '\0';
        }
    }
    nearkv_csim::current_masters() = {};
    return result;
}
