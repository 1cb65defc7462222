// SPDX-License-Identifier: Apache-2.0
// What lies behind the AXI masters: regions of bytes, and the random numbers that disturb traffic. Knows no time.
#pragma once

#include <cstdint>
#include <vector>

namespace nearkv {

constexpr uint64_t WORD_BYTES = 64;
constexpr uint64_t PAGE_BYTES = 4096;

// A small generator of its own, so that a seed means the same stalls everywhere.
struct Random {
    uint64_t state = 1;
    uint32_t next() {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        return static_cast<uint32_t>(state >> 32);
    }
    // true in `percent` of the calls
    bool chance(uint32_t percent) { return percent != 0 && next() % 100 < percent; }
};

struct Region {
    uint64_t base;
    uint8_t* memory;
    uint64_t nbytes;
};

// What one master can reach; a word that no region holds whole is answered with DECERR.
class Space {
  public:
    void add(uint64_t base, uint8_t* memory, uint64_t nbytes) { regions_.push_back({base, memory, nbytes}); }
    void clear() { regions_.clear(); }
    uint8_t* word(uint64_t address) const {
        for (const Region& r : regions_)
            if (address >= r.base && address - r.base + WORD_BYTES <= r.nbytes) return r.memory + (address - r.base);
        return nullptr;
    }

  private:
    std::vector<Region> regions_;
};

// How one master reaches memory.
struct Timing {
    // cycles on the way to the controller and back; an ideal memory answers after just these
    uint32_t latency = 40;
    // percent of cycles in which a channel does not move, drawn from the seed
    uint32_t stall = 0;
    // percent of words after which another id may go first
    uint32_t reorder = 0;
};

}  // namespace nearkv
