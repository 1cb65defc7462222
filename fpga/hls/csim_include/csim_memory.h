// SPDX-License-Identifier: Apache-2.0
// The memory behind the kernel's AXI masters when it is compiled by g++: regions at device addresses, and a decode
// error for every access outside them. Stands for the interconnect; counts nothing and knows no descriptor.
#pragma once

#include <ap_int.h>

#include <cstdint>
#include <cstring>
#include <vector>

namespace nearkv_csim {

using Word = ap_uint<512>;
constexpr uint64_t WORD = sizeof(Word);

// Memory that a master reaches: `nbytes` at `memory`, which the kernel sees at device address `base`.
struct Region {
    uint64_t base;
    uint64_t nbytes;
    uint8_t* memory;
};

// One AXI master. Word `index` lies at the master's base pointer (its register) plus 64 * index; the low six address
// bits count as zero. After the first failed access nothing more is written, and `failed` stays until `clear`.
class Port {
  public:
    Port(const Region* regions, uint64_t count, uint64_t base)
        : regions_(regions), count_(count), base_(base - base % WORD), register_(base) {}

    uint64_t base_register() const { return register_; }
    bool failed() const { return failed_; }
    uint64_t failed_address() const { return failed_address_; }
    // Words of the last burst that came before the failed one; all of them when none failed.
    uint64_t words_before() const { return words_before_; }
    void clear() { failed_ = false; }

    // Words index .. index + count - 1; zeros from the first one on that cannot be read.
    const Word* read(int64_t index, uint64_t count) {
        uint64_t held = 0;
        const uint64_t address = address_of(index);
        const uint8_t* at = find(address, held);
        words_before_ = count;
        if (held >= count) return reinterpret_cast<const Word*>(at);
        return gather(address, count);
    }

    void write(int64_t index, const Word& word) {
        if (failed_) return;
        uint64_t held = 0;
        const uint64_t address = address_of(index);
        uint8_t* at = find(address, held);
        if (held == 0) {
            fail(address);
            return;
        }
        std::memcpy(at, &word, WORD);
    }

  private:
    uint64_t address_of(int64_t index) const { return base_ + uint64_t(index) * WORD; }

    // Where the word at `address` lies, and how many whole words its region holds from there on.
    uint8_t* find(uint64_t address, uint64_t& held) const {
        for (uint64_t i = 0; i < count_; ++i) {
            const Region& region = regions_[i];
            const uint64_t offset = address - region.base;
            if (address < region.base || offset >= region.nbytes) continue;
            held = (region.nbytes - offset) / WORD;
            if (held != 0) return region.memory + offset;
        }
        held = 0;
        return nullptr;
    }

    // A burst that no region holds whole.
    const Word* gather(uint64_t address, uint64_t count) {
        gathered_.assign(count, Word(0));
        for (uint64_t done = 0; done < count;) {
            uint64_t held = 0;
            const uint8_t* at = find(address + done * WORD, held);
            if (held == 0) {
                words_before_ = done;
                fail(address + done * WORD);
                break;
            }
            const uint64_t n = held < count - done ? held : count - done;
            std::memcpy(static_cast<void*>(&gathered_[done]), at, n * WORD);
            done += n;
        }
        return gathered_.data();
    }

    void fail(uint64_t address) {
        if (!failed_) failed_address_ = address;
        failed_ = true;
    }

    const Region* regions_;
    uint64_t count_;
    uint64_t base_;
    uint64_t register_;
    bool failed_ = false;
    uint64_t failed_address_ = 0;
    uint64_t words_before_ = 0;
    std::vector<Word> gathered_;
};

// The masters of the kernel that runs on this thread, by index.
struct Masters {
    Port* port[3];
};

inline Masters& current_masters() {
    static thread_local Masters masters = {};
    return masters;
}

}  // namespace nearkv_csim
