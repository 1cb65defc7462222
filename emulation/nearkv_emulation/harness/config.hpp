// SPDX-License-Identifier: Apache-2.0
// What memory_model.py hands over: which channel, and how fast everything is. Plain numbers for ctypes.
#pragma once

#include <memory>

#include "ddr4.hpp"

namespace nearkv {

struct Config {
    // clock of the kernel
    uint32_t clock_khz;
    // 0: IdealChannel, and `figures` means nothing; 1: Ddr4Channel
    uint32_t ddr4;
    // bytes per second through the switch into card memory
    double fill_rate;
    Ddr4 figures;
};

inline std::unique_ptr<Channel> make_channel(Ports ports, const Config& config) {
    ports.fill.rate(config.fill_rate / (config.clock_khz * 1e3));
    if (config.ddr4 != 0) return std::make_unique<Ddr4Channel>(ports, config.figures, config.clock_khz);
    return std::make_unique<IdealChannel>(ports);
}

}  // namespace nearkv
