// SPDX-License-Identifier: Apache-2.0
// The memory side of AXI masters: takes addresses and data, gives answers in the order in which a channel served them.
// Checks the AXI rules that a master must keep. When a word is served is decided by a channel (see channel.hpp).
#pragma once

#include <cstring>
#include <deque>
#include <string>

#include "memory.hpp"

namespace nearkv {

// Consecutive words that wait for service.
struct Burst {
    uint64_t address;
    uint32_t left;
    uint32_t id;
    uint64_t arrives;
    // of Ddr4Channel: state of the banks in which all rows of this burst were open; cycle since which it is the next
    // of its port, 0 when it is not
    uint64_t prepared = 0;
    uint64_t first_since = 0;
};

constexpr uint32_t RESP_OKAY = 0, RESP_DECERR = 3;

// Remembers the first broken rule, with the name of the master.
class Rules {
  public:
    explicit Rules(const char* name) : name_(name) {}
    void require(bool kept, const char* rule) {
        if (!kept && broken.empty()) broken = std::string(name_) + ": " + rule;
    }
    std::string broken;

  private:
    const char* name_;
};

// The signals of an address channel at a rising edge.
struct Address {
    bool valid;
    uint64_t address;
    uint32_t len;
    uint32_t id;
    uint32_t size;
    uint32_t burst;
    bool same(const Address& other) const {
        return valid && address == other.address && len == other.len && id == other.id;
    }
};

// The read side of a master: takes bursts, gives one word per cycle at most.
class Reader {
  public:
    static constexpr size_t BURSTS_MAX = 64;
    // words that were served and not yet taken, beside those on their way
    static constexpr size_t ROOM_WORDS = 64;

    Reader(const char* name, Space& space, const Timing& timing, uint64_t seed)
        : rules(name), space_(space), timing_(timing) {
        random_.state = seed * 2654435761u + 88172645463325252u;
    }
    Rules rules;
    bool ready = true;
    uint64_t words = 0;

    // What the R channel shows. `data` is null where there is no memory.
    struct Shown {
        bool valid = false;
        uint32_t id = 0;
        const uint8_t* data = nullptr;
        uint32_t resp = RESP_OKAY;
        bool last = false;
    } out;
    // whether `out` changed in the last `drive`
    bool fresh = false;

    // Before the rising edge: the handshakes that it completes. `delay`: cycles from the port to the channel.
    void edge(uint64_t now, const Address& ar, bool r_ready, uint32_t delay) {
        if (waiting_) rules.require(ar.same(asked_), "AR changed before it was accepted");
        waiting_ = ar.valid && !ready;
        if (ar.valid) {
            asked_ = ar;
            if (ready) accept(now + delay);
        }
        if (out.valid && r_ready) {
            ++words;
            out.valid = false;
        }
    }
    // After the rising edge: what it sees next.
    void drive(uint64_t now) {
        ready = bursts.size() < BURSTS_MAX && !random_.chance(timing_.stall);
        fresh = false;
        if (out.valid || served_.empty() || served_.front().due > now || random_.chance(timing_.stall)) return;
        const Word& word = served_.front();
        out.data = space_.word(word.address);
        out.resp = out.data != nullptr ? RESP_OKAY : RESP_DECERR;
        out.id = word.id;
        out.last = word.last;
        out.valid = fresh = true;
        served_.pop_front();
    }
    void reset() {
        bursts.clear();
        served_.clear();
        current_ = 0;
        out.valid = waiting_ = false;
    }

    // The channel's side. Bursts in the order in which they were asked for.
    std::deque<Burst> bursts;
    // The burst whose next word is to be served, if it has arrived and its word has room.
    Burst* head(uint64_t now) {
        if (current_ >= bursts.size() || bursts[current_].arrives > now || full()) return nullptr;
        return &bursts[current_];
    }
    // Its next word is served and arrives at the port in cycle `due`.
    void serve(uint64_t due) {
        Burst& b = bursts[current_];
        served_.push_back({b.address, due, b.id, b.left == 1});
        b.address += WORD_BYTES;
        if (--b.left == 0) bursts.erase(bursts.begin() + static_cast<long>(current_));
        choose();
    }
    uint32_t latency() const { return timing_.latency; }

  private:
    struct Word {
        uint64_t address;
        uint64_t due;
        uint32_t id;
        bool last;
    };
    bool full() const { return served_.size() >= ROOM_WORDS + timing_.latency; }
    void accept(uint64_t arrives) {
        rules.require(asked_.address % WORD_BYTES == 0, "AR address is not a multiple of 64");
        rules.require(asked_.address / PAGE_BYTES == (asked_.address + asked_.len * WORD_BYTES) / PAGE_BYTES,
                      "a read burst crosses 4 KiB");
        rules.require(asked_.size == 6 && asked_.burst == 1, "AR asks for other than incrementing words of 64 bytes");
        bursts.push_back({asked_.address, asked_.len + 1, asked_.id, arrives});
    }
    // Which burst is next: the oldest, or by chance another one that is the first of its id. That one goes to the
    // front: the channel closes no row that a port's front needs, so one behind it might wait for ever.
    void choose() {
        current_ = 0;
        if (bursts.empty() || !random_.chance(timing_.reorder)) return;
        size_t next = random_.next() % bursts.size();
        for (size_t i = 0; i < next; ++i)
            if (bursts[i].id == bursts[next].id) next = i;
        const Burst chosen = bursts[next];
        bursts.erase(bursts.begin() + static_cast<long>(next));
        bursts.push_front(chosen);
    }
    Space& space_;
    const Timing& timing_;
    Random random_;
    std::deque<Word> served_;
    size_t current_ = 0;
    bool waiting_ = false;
    Address asked_{};
};

// The write side of a master that writes single words. Memory holds a word as soon as address and data were accepted.
class Writer {
  public:
    static constexpr size_t ROOM_WORDS = 16;
    static constexpr size_t WAITING_MAX = 64;

    Writer(const char* name, Space& space, const Timing& timing, uint64_t seed)
        : rules(name), space_(space), timing_(timing) {
        random_.state = seed * 2654435761u + 362436069u;
    }
    Rules rules;
    bool aw_ready = true;
    bool w_ready = true;
    bool b_valid = false;
    uint32_t b_resp = RESP_OKAY;
    uint64_t words = 0;
    // After so many words nothing is taken any more: a memory that hangs (for tests).
    uint64_t words_until_hang = UINT64_MAX;

    // The signals of the W channel at a rising edge.
    struct Data {
        bool valid;
        const void* data;
        uint64_t strobes;
        bool last;
    };

    void edge(uint64_t now, const Address& aw, const Data& w, bool b_ready, uint32_t delay) {
        check(aw, w);
        if (aw.valid && aw_ready) addresses_.push_back(aw.address);
        if (w.valid && w_ready) data_.push_back(copy(w.data));
        if (b_valid && b_ready) {
            answers_.pop_front();
            b_valid = false;
        }
        while (!addresses_.empty() && !data_.empty() && words < words_until_hang) {
            uint8_t* word = space_.word(addresses_.front());
            if (word != nullptr) std::memcpy(word, data_.front().bytes, WORD_BYTES);
            bursts.push_back({addresses_.front(), 1, word != nullptr ? RESP_OKAY : RESP_DECERR, now + delay});
            ++words;
            addresses_.pop_front();
            data_.pop_front();
        }
    }
    void drive(uint64_t now) {
        const bool room = bursts.size() < WAITING_MAX;
        aw_ready = room && addresses_.size() < ROOM_WORDS && !random_.chance(timing_.stall);
        w_ready = room && data_.size() < ROOM_WORDS && !random_.chance(timing_.stall);
        if (b_valid || answers_.empty() || answers_.front().due > now || random_.chance(timing_.stall)) return;
        b_valid = true;
        b_resp = answers_.front().resp;
    }
    void reset() {
        addresses_.clear();
        data_.clear();
        answers_.clear();
        bursts.clear();
        b_valid = aw_waiting_ = w_waiting_ = false;
    }

    // The channel's side: words in order, the answer in place of an id.
    std::deque<Burst> bursts;
    void serve(uint64_t due) {
        answers_.push_back({due, bursts.front().id});
        bursts.pop_front();
    }
    uint32_t latency() const { return timing_.latency; }

  private:
    struct Word {
        uint8_t bytes[WORD_BYTES];
    };
    struct Answer {
        uint64_t due;
        uint32_t resp;
    };
    static Word copy(const void* data) {
        Word word;
        std::memcpy(word.bytes, data, WORD_BYTES);
        return word;
    }
    void check(const Address& aw, const Data& w) {
        if (aw_waiting_) rules.require(aw.same(asked_), "AW changed before it was accepted");
        aw_waiting_ = aw.valid && !aw_ready;
        if (aw.valid) {
            asked_ = aw;
            rules.require(aw.len == 0, "AW asks for more than one word");
            rules.require(aw.address % WORD_BYTES == 0, "AW address is not a multiple of 64");
            rules.require(aw.size == 6 && aw.burst == 1, "AW asks for other than incrementing words of 64 bytes");
        }
        if (w_waiting_)
            rules.require(w.valid && std::memcmp(w.data, offered_.bytes, WORD_BYTES) == 0,
                          "W changed before it was accepted");
        w_waiting_ = w.valid && !w_ready;
        if (w_waiting_) offered_ = copy(w.data);
        if (w.valid) rules.require(w.last && w.strobes == UINT64_MAX, "W is not one whole word with its last");
    }
    Space& space_;
    const Timing& timing_;
    Random random_;
    std::deque<uint64_t> addresses_;
    std::deque<Word> data_;
    std::deque<Answer> answers_;
    bool aw_waiting_ = false;
    bool w_waiting_ = false;
    Address asked_{};
    Word offered_{};
};

}  // namespace nearkv
