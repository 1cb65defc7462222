// SPDX-License-Identifier: Apache-2.0
// Memory behind the AXI masters of the Verilated kernel: regions, latency, bandwidth, stalls, order of answers.
// Checks the AXI rules that a master must keep. Knows no descriptor.
#pragma once

#include <cstdint>
#include <cstring>
#include <deque>
#include <string>
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

struct Timing {
    // cycles from an accepted address to its first word or answer
    uint32_t latency = 40;
    // percent of cycles in which a channel does not move, drawn from the seed
    uint32_t stall = 0;
    // percent of cycles in which another id may go first
    uint32_t reorder = 0;
};

struct ReadWord {
    bool valid = false;
    uint32_t id = 0;
    uint8_t data[WORD_BYTES] = {};
    uint32_t resp = 0;
    bool last = false;
};

// The read side of a master: takes bursts, gives one word per cycle at most.
class Reader {
  public:
    Reader(const char* name, Space& space, Timing& timing, uint64_t seed)
        : name_(name), space_(space), timing_(timing) {
        random_.state = seed * 2654435761u + 88172645463325252u;
    }
    bool ready = true;
    ReadWord out;
    uint64_t words = 0;
    std::string broken;

    // Before the rising edge: the handshakes that it completes.
    void edge(uint64_t now, bool ar_valid, uint64_t address, uint32_t len, uint32_t id, bool r_ready) {
        if (pending_ && !(ar_valid && address == pending_address_ && len == pending_len_))
            complain("AR changed before it was accepted");
        pending_ = ar_valid && !ready;
        pending_address_ = address;
        pending_len_ = len;
        if (ar_valid && ready) {
            if (address % WORD_BYTES != 0) complain("AR address is not a multiple of 64");
            if (address / PAGE_BYTES != (address + len * WORD_BYTES) / PAGE_BYTES) complain("burst crosses 4 KiB");
            bursts_.push_back({address, len + 1, id, now + timing_.latency});
        }
        if (out.valid && r_ready) {
            Burst& b = bursts_[current_];
            b.address += WORD_BYTES;
            ++words;
            if (--b.left == 0) bursts_.erase(bursts_.begin() + static_cast<long>(current_));
            out.valid = false;
        }
    }
    // After the rising edge: what it sees next.
    void drive(uint64_t now) {
        ready = bursts_.size() < 64 && !random_.chance(timing_.stall);
        if (out.valid || bursts_.empty() || random_.chance(timing_.stall)) return;
        current_ = 0;
        if (timing_.reorder != 0 && random_.chance(timing_.reorder)) {
            current_ = random_.next() % bursts_.size();
            for (size_t i = 0; i < current_; ++i)
                if (bursts_[i].id == bursts_[current_].id) {
                    current_ = i;
                    break;
                }
        }
        const Burst& b = bursts_[current_];
        if (b.due > now) return;
        const uint8_t* word = space_.word(b.address);
        out.valid = true;
        out.id = b.id;
        out.resp = word != nullptr ? 0 : 3;
        out.last = b.left == 1;
        if (word != nullptr)
            std::memcpy(out.data, word, WORD_BYTES);
        else
            std::memset(out.data, 0, WORD_BYTES);
    }
    void reset() {
        bursts_.clear();
        out.valid = false;
        pending_ = false;
    }
    size_t owed() const { return bursts_.size(); }

  private:
    struct Burst {
        uint64_t address;
        uint32_t left;
        uint32_t id;
        uint64_t due;
    };
    void complain(const char* what) {
        if (broken.empty()) broken = std::string(name_) + ": " + what;
    }
    const char* name_;
    Space& space_;
    Timing& timing_;
    Random random_;
    std::deque<Burst> bursts_;
    size_t current_ = 0;
    bool pending_ = false;
    uint64_t pending_address_ = 0;
    uint32_t pending_len_ = 0;
};

// The write side of a master that writes single beats.
class Writer {
  public:
    Writer(const char* name, Space& space, Timing& timing, uint64_t seed)
        : name_(name), space_(space), timing_(timing) {
        random_.state = seed * 2654435761u + 362436069u;
    }
    bool aw_ready = true;
    bool w_ready = true;
    bool b_valid = false;
    uint32_t b_resp = 0;
    uint64_t words = 0;
    std::string broken;

    void edge(uint64_t now, bool aw_valid, uint64_t address, uint32_t len, bool w_valid, const void* data, bool last,
              bool b_ready) {
        if (aw_valid && aw_ready) {
            if (len != 0) complain("AW asks for more than one beat");
            if (address % WORD_BYTES != 0) complain("AW address is not a multiple of 64");
            addresses_.push_back(address);
        }
        if (w_valid && w_ready) {
            if (!last) complain("W without last");
            Word word;
            std::memcpy(word.bytes, data, WORD_BYTES);
            data_.push_back(word);
        }
        if (b_valid && b_ready) {
            answers_.pop_front();
            b_valid = false;
        }
        while (!addresses_.empty() && !data_.empty()) {
            uint8_t* word = space_.word(addresses_.front());
            if (word != nullptr) std::memcpy(word, data_.front().bytes, WORD_BYTES);
            answers_.push_back({now + timing_.latency, word != nullptr ? 0u : 3u});
            ++words;
            addresses_.pop_front();
            data_.pop_front();
        }
    }
    void drive(uint64_t now) {
        aw_ready = addresses_.size() < 16 && !random_.chance(timing_.stall);
        w_ready = data_.size() < 16 && !random_.chance(timing_.stall);
        if (b_valid || answers_.empty() || answers_.front().due > now || random_.chance(timing_.stall)) return;
        b_valid = true;
        b_resp = answers_.front().resp;
    }
    void reset() {
        addresses_.clear();
        data_.clear();
        answers_.clear();
        b_valid = false;
    }

  private:
    struct Word {
        uint8_t bytes[WORD_BYTES];
    };
    struct Answer {
        uint64_t due;
        uint32_t resp;
    };
    void complain(const char* what) {
        if (broken.empty()) broken = std::string(name_) + ": " + what;
    }
    const char* name_;
    Space& space_;
    Timing& timing_;
    Random random_;
    std::deque<uint64_t> addresses_;
    std::deque<Word> data_;
    std::deque<Answer> answers_;
};

}  // namespace nearkv
