// SPDX-License-Identifier: Apache-2.0
// What ended a job, with the fields of its status, and checks that keep the first refused field.
#pragma once

#include "port.hpp"
#include "words.hpp"

namespace nearkv {

// `code` is STATUS_OK while nothing has happened; what the code does not speak of holds NOT_APPLICABLE.
struct Fault {
    uint32_t code;
    uint32_t segment;
    uint32_t page;
    uint32_t kind;
    uint32_t position;
    uint32_t detail;
    uint64_t address;
};

inline Fault make_fault(uint32_t code) {
#pragma HLS INLINE
    const uint32_t none = regmap::NOT_APPLICABLE;
    return {code, none, none, none, none, none, 0};
}

inline Fault no_fault() {
#pragma HLS INLINE
    return make_fault(regmap::STATUS_OK);
}

inline bool failed(const Fault& fault) {
#pragma HLS INLINE
    return fault.code != regmap::STATUS_OK;
}

// The fault of a port, if it had one since `clear_failure`.
template <typename PORT>
inline Fault bus_fault(PORT port, uint32_t code, uint32_t master) {
#pragma HLS INLINE
    Fault fault = no_fault();
    if (port_failed(port, fault.address)) {
        fault.code = code;
        fault.detail = master;
    }
    return fault;
}

// Keeps the first requirement that does not hold. All of them are evaluated, as hardware does side by side.
class FieldCheck {
  public:
    void require(bool holds, uint32_t offset) {
#pragma HLS INLINE
        if (!refused_ && !holds) {
            refused_ = true;
            offset_ = offset;
        }
    }
    void require(bool holds, const regmap::Field& field) {
#pragma HLS INLINE
        require(holds, offset_of(field));
    }
    // The 32-bit words in [start, stop) bytes, which no field names, are zero.
    void require_reserved(const word_t words[], unsigned start, unsigned stop) {
    RESERVED:
        for (unsigned at = start; at < stop; at += 4) {
#pragma HLS LOOP_TRIPCOUNT min = 1 max = 32
            require(u32_at(words[at / WORD_BYTES], at % WORD_BYTES / 4) == 0, at);
        }
    }
    // A fault of the given code when something was refused.
    Fault verdict(uint32_t code) const {
#pragma HLS INLINE
        Fault fault = no_fault();
        if (refused_) {
            fault.code = code;
            fault.detail = offset_;
        }
        return fault;
    }

  private:
    bool refused_ = false;
    uint32_t offset_ = 0;
};

}  // namespace nearkv
