// SPDX-License-Identifier: Apache-2.0
// Pages that a drive writes into card memory through the switch. Counts time and bandwidth; the bytes are there
// already.
#pragma once

#include <atomic>
#include <mutex>
#include <vector>

#include "ports.hpp"

namespace nearkv {

class Fill {
  public:
    static constexpr size_t WAITING_MAX = 64;

    // Bytes that arrive per cycle while there are any.
    void rate(double bytes_per_cycle) { rate_ = bytes_per_cycle; }
    // From any thread, also while the clock runs.
    void add(uint64_t address, uint64_t nbytes) {
        const std::lock_guard<std::mutex> hold(lock_);
        inbox_.push_back({address, nbytes});
        news_.store(true, std::memory_order_release);
    }
    // Words that have come through the switch by this cycle; they wait for their channel as writes do.
    void step(uint64_t now) {
        if (news_.load(std::memory_order_acquire)) take();
        if (ranges_.empty() || bursts.size() >= WAITING_MAX) return;
        credit_ += rate_;
        while (credit_ >= WORD_BYTES && !ranges_.empty()) {
            credit_ -= WORD_BYTES;
            Range& range = ranges_.front();
            bursts.push_back({range.address / WORD_BYTES * WORD_BYTES, 1, RESP_OKAY, now});
            range.address += WORD_BYTES;
            range.nbytes -= range.nbytes < WORD_BYTES ? range.nbytes : WORD_BYTES;
            if (range.nbytes == 0) ranges_.pop_front();
        }
        if (ranges_.empty()) credit_ = 0;
    }
    std::deque<Burst> bursts;
    void serve(uint64_t) {
        bursts.pop_front();
        ++words;
    }
    uint64_t words = 0;
    bool idle() const { return !news_.load(std::memory_order_acquire) && ranges_.empty() && bursts.empty(); }

  private:
    struct Range {
        uint64_t address;
        uint64_t nbytes;
    };
    void take() {
        const std::lock_guard<std::mutex> hold(lock_);
        for (const Range& range : inbox_)
            if (range.nbytes != 0) ranges_.push_back(range);
        inbox_.clear();
        news_.store(false, std::memory_order_release);
    }
    std::deque<Range> ranges_;
    double rate_ = 10;
    double credit_ = 0;
    std::mutex lock_;
    std::vector<Range> inbox_;
    std::atomic<bool> news_{false};
};

}  // namespace nearkv
