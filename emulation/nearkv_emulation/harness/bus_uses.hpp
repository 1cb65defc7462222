// SPDX-License-Identifier: Apache-2.0
// What the bus of a memory channel did in each cycle. Only counts: nothing depends on it. The layout is that of the
// ctypes array in memory_model.py.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace nearkv {

struct BusUses {
    // Every cycle has one use: the port whose word began in it or is still being carried, else why no word began.
    enum Use : size_t {
        KV,
        CTL,
        OUT,
        FILL,
        // words wait until a refresh has ended
        REFRESH,
        // words wait, their rows are open, and none was carried since the bus changed its direction
        TURN,
        // words wait for their rows or for their bank group
        ROWS,
        // no word waits
        NOTHING,
        USES
    };
    std::array<uint64_t, USES> cycles{};
    // how often the bus changed its direction
    uint64_t turns = 0;
};

}  // namespace nearkv
