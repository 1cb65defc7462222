// SPDX-License-Identifier: Apache-2.0
// Masters that do nothing but read, behind the same memory as the kernel: what the memory can deliver. A C library
// of its own (no Verilator), and part of the Verilated kernel's.
#include <algorithm>

#include "config.hpp"

namespace nearkv {

// Ranges of addresses, in order, as bursts of up to 64 words that stay inside 4 KiB.
class PureReader {
  public:
    PureReader(const uint64_t* ranges, uint64_t count, uint32_t outstanding)
        : ranges_(ranges), count_(count), outstanding_(outstanding) {}
    bool ended() const { return index_ == count_ && owed_ == 0; }
    Address asks(bool ready) {
        if (index_ == count_ || flying_ == outstanding_ || !ready) return {};
        const uint64_t address = ranges_[2 * index_] + done_;
        const uint64_t room = PAGE_BYTES - address % PAGE_BYTES;
        const uint64_t nbytes = std::min(room, ranges_[2 * index_ + 1] - done_);
        done_ += nbytes;
        if (done_ == ranges_[2 * index_ + 1]) {
            ++index_;
            done_ = 0;
        }
        const uint32_t words = static_cast<uint32_t>(nbytes / WORD_BYTES);
        ++flying_;
        owed_ += words;
        return {true, address, words - 1, 0, 6, 1};
    }
    void gets(const Reader::Shown& shown) {
        if (!shown.valid) return;
        --owed_;
        if (shown.last) --flying_;
    }

  private:
    const uint64_t* ranges_;
    const uint64_t count_;
    const uint32_t outstanding_;
    uint64_t index_ = 0, done_ = 0, owed_ = 0;
    uint32_t flying_ = 0;
};

}  // namespace nearkv

extern "C" {
// Reads `count` ranges of (address, bytes), multiples of 64, with `outstanding` bursts in flight, and as many as
// `beside_count` tells on another port with one in flight, while `fill_nbytes` come through the switch to the address
// behind; returns the cycles until the last word, 0 when `limit` was not enough.
uint64_t nearkv_pure_read(const nearkv::Config* config, const nearkv::Timing* timing, const uint64_t* ranges,
                          uint64_t count, uint32_t outstanding, const uint64_t* beside, uint64_t beside_count,
                          uint64_t fill_address, uint64_t fill_nbytes, uint64_t limit) {
    using namespace nearkv;
    Space space;
    Reader kv("kv", space, *timing, 1), ctl("ctl", space, *timing, 2);
    Writer writer("out", space, *timing, 3);
    Fill fill;
    if (fill_nbytes != 0) fill.add(fill_address, fill_nbytes);
    const std::unique_ptr<Channel> channel = make_channel({kv, ctl, writer, fill}, *config);
    struct {
        Reader& port;
        PureReader master;
    } readers[] = {{kv, {ranges, count, outstanding}}, {ctl, {beside, beside_count, 1}}};
    for (uint64_t now = 0; now < limit;) {
        for (auto& [port, master] : readers) {
            const Address ar = master.asks(port.ready);
            master.gets(port.out);
            port.edge(now, ar, true, channel->request_cycles(timing->latency));
        }
        ++now;
        if (readers[0].master.ended() && readers[1].master.ended()) return now;
        channel->step(now);
        for (auto& reader : readers) reader.port.drive(now);
    }
    return 0;
}

// Cycles until `nbytes` have come through the switch with nothing else on the channel; 0 when `limit` was not enough.
uint64_t nearkv_pure_fill(const nearkv::Config* config, uint64_t address, uint64_t nbytes, uint64_t limit) {
    using namespace nearkv;
    Space space;
    const Timing timing;
    Reader kv("kv", space, timing, 1), ctl("ctl", space, timing, 2);
    Writer writer("out", space, timing, 3);
    Fill fill;
    fill.add(address, nbytes);
    const std::unique_ptr<Channel> channel = make_channel({kv, ctl, writer, fill}, *config);
    for (uint64_t now = 0; now < limit; ++now) {
        channel->step(now);
        if (fill.idle()) return now + 1;
    }
    return 0;
}
}
