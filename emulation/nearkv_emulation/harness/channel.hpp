// SPDX-License-Identifier: Apache-2.0
// The memory channel that all masters share: decides when a word is served. Here what every channel is, and the ideal
// one, which serves each port a word per cycle (DDR4: see ddr4.hpp). Moves no data.
#pragma once

#include <cstdint>

#include "bus_uses.hpp"
#include "fill.hpp"

namespace nearkv {

// All that has a place on the channel.
struct Ports {
    Reader& kv;
    Reader& ctl;
    Writer& out;
    Fill& fill;
};

class Channel {
  public:
    virtual ~Channel() = default;
    // Serves what can be served in cycle `now`.
    virtual void step(uint64_t now) = 0;
    // Cycles of a port's latency that pass before a request is seen here; the rest passes on the way back.
    virtual uint32_t request_cycles(uint32_t latency) const = 0;
    // Null where the ports share no bus.
    virtual const BusUses* uses() const { return nullptr; }
};

class IdealChannel : public Channel {
  public:
    explicit IdealChannel(Ports ports) : ports_(ports) {}
    void step(uint64_t now) override {
        ports_.fill.step(now);
        for (Reader* reader : {&ports_.kv, &ports_.ctl})
            if (reader->head(now) != nullptr) reader->serve(now);
        while (!ports_.out.bursts.empty()) ports_.out.serve(ports_.out.bursts.front().arrives);
        while (!ports_.fill.bursts.empty()) ports_.fill.serve(now);
    }
    uint32_t request_cycles(uint32_t latency) const override { return latency; }

  private:
    Ports ports_;
};

}  // namespace nearkv
