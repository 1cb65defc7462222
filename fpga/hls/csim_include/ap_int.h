// SPDX-License-Identifier: Apache-2.0
// Arbitrary-width integers for compiling the kernel with plain g++: what the kernel uses of the HLS type library, no
// more.
//
// Up to 128 bits a number lives in a native integer and wraps on assignment as the hardware type does; arithmetic
// between two numbers is native arithmetic, so the kernel widens operands before it multiplies or shifts left. Wider
// types are arrays of 64-bit words that support ranges of up to 64 bits. Exact is a signed number that reports what
// does not fit instead of wrapping. On synthesis the vendor's header of this name is used instead.
#pragma once

#include <cstdint>
#include <type_traits>

#include "csim_check.h"

#define NEARKV_AP_INT_SHIM 1

namespace nearkv_csim {

template <int W, bool SIGNED>
using native = std::conditional_t<
    (W <= 8), std::conditional_t<SIGNED, int8_t, uint8_t>,
    std::conditional_t<
        (W <= 16), std::conditional_t<SIGNED, int16_t, uint16_t>,
        std::conditional_t<(W <= 32), std::conditional_t<SIGNED, int32_t, uint32_t>,
                           std::conditional_t<(W <= 64), std::conditional_t<SIGNED, int64_t, uint64_t>,
                                              std::conditional_t<SIGNED, __int128, unsigned __int128>>>>>;

template <int W, bool SIGNED, bool WRAPS = true>
class Narrow {
  public:
    using Native = native<W, SIGNED>;
    static constexpr int width = W;

    Narrow() = default;
    template <typename T, typename = std::enable_if_t<std::is_convertible<T, Native>::value>>
    Narrow(T other) : value(wrap(other)) {}
    operator Native() const { return value; }
    template <typename T>
    Narrow& operator+=(T other) {
        return *this = Narrow(value + other);
    }
    template <typename T>
    Narrow& operator>>=(T bits) {
        return *this = Narrow(value >> bits);
    }

  private:
    template <typename T>
    static Native wrap(T other) {
        using Bits = native<W, false>;
        using Widest = std::conditional_t<(W <= 32), int64_t, __int128>;
        constexpr int SPARE = int(sizeof(Native) * 8) - W;
        const Native cut = Native(Native(Bits(Bits(other) << SPARE)) >> SPARE);
        if (!WRAPS) check(Widest(cut) == Widest(other), "a number does not fit its type");
        return cut;
    }

    Native value;
};

// Bits [high:low] of a wide word, at most 64 of them and within one or two 64-bit parts.
template <typename WORD>
class Range {
  public:
    Range(WORD& word, int high, int low) : word_(word), high_(high), low_(low) {}
    operator uint64_t() const { return word_.get(high_, low_); }
    Range& operator=(uint64_t bits) {
        word_.set(high_, low_, bits);
        return *this;
    }

  private:
    WORD& word_;
    int high_, low_;
};

template <int W>
class Wide {
    static_assert(W % 64 == 0, "wide words are whole numbers of 64-bit parts");

  public:
    Wide() = default;
    Wide(int bits) {
        for (uint64_t& part : part_) part = bits < 0 ? ~uint64_t(0) : 0;
        part_[0] = uint64_t(int64_t(bits));
    }
    Range<Wide> range(int high, int low) { return {*this, high, low}; }
    uint64_t range(int high, int low) const { return get(high, low); }
    uint64_t get(int high, int low) const {
        const int shift = low % 64, bits = high - low + 1;
        uint64_t found = part_[low / 64] >> shift;
        if (shift + bits > 64) found |= part_[low / 64 + 1] << (64 - shift);
        return bits == 64 ? found : found & ((uint64_t(1) << bits) - 1);
    }
    void set(int high, int low, uint64_t bits) {
        check(low / 64 == high / 64, "a range is written across 64-bit parts");
        const uint64_t mask = (high - low == 63 ? ~uint64_t(0) : (uint64_t(1) << (high - low + 1)) - 1) << (low % 64);
        part_[low / 64] = (part_[low / 64] & ~mask) | ((bits << (low % 64)) & mask);
    }

  private:
    uint64_t part_[W / 64];
};

template <int W>
using Exact = Narrow<W, true, false>;

template <int W, bool SIGNED>
using integer = std::conditional_t<(W <= 128), Narrow<W, SIGNED>, Wide<W>>;

}  // namespace nearkv_csim

template <int W>
class ap_int : public nearkv_csim::integer<W, true> {
  public:
    using nearkv_csim::integer<W, true>::integer;
    ap_int() = default;
};

template <int W>
class ap_uint : public nearkv_csim::integer<W, false> {
  public:
    using nearkv_csim::integer<W, false>::integer;
    ap_uint() = default;
};
