// SPDX-License-Identifier: Apache-2.0
// Integers inside 512-bit words: lanes, fields of descriptors, rows of results. Does no memory access.
//
// NEARKV_FAST switches the bodies below to plain memory copies, which g++ turns into vector code; the bits are the
// same.
#pragma once

#ifdef NEARKV_FAST
#include <cstring>
#endif

#include "types.hpp"

namespace nearkv {

// Integer of BITS bits at index `i` of a word.
template <unsigned BITS, typename T>
inline T read_lane(const word_t& word, unsigned i) {
#pragma HLS INLINE
    static_assert(sizeof(T) * 8 == BITS, "a lane is read into an unsigned integer of its own size");
#ifdef NEARKV_FAST
    T value;
    std::memcpy(&value, reinterpret_cast<const char*>(&word) + i * sizeof(T), sizeof(T));
    return value;
#else
    const ap_uint<BITS> bits = word.range(BITS * i + BITS - 1, BITS * i);
    return T(bits);
#endif
}

template <unsigned BITS, typename T>
inline void write_lane(word_t& word, unsigned i, T value) {
#pragma HLS INLINE
    static_assert(sizeof(T) * 8 == BITS, "a lane is written from an unsigned integer of its own size");
#ifdef NEARKV_FAST
    std::memcpy(reinterpret_cast<char*>(&word) + i * sizeof(T), &value, sizeof(T));
#else
    word.range(BITS * i + BITS - 1, BITS * i) = value;
#endif
}

inline uint16_t half_at(const word_t& word, unsigned i) {
#pragma HLS INLINE
    return read_lane<16, uint16_t>(word, i);
}

inline uint32_t u32_at(const word_t& word, unsigned i) {
#pragma HLS INLINE
    return read_lane<32, uint32_t>(word, i);
}

inline uint64_t u64_at(const word_t& word, unsigned i) {
#pragma HLS INLINE
    return read_lane<64, uint64_t>(word, i);
}

inline void set_u32(word_t& word, unsigned i, uint32_t value) {
#pragma HLS INLINE
    write_lane<32, uint32_t>(word, i, value);
}

inline void set_u64(word_t& word, unsigned i, uint64_t value) {
#pragma HLS INLINE
    write_lane<64, uint64_t>(word, i, value);
}

// Value of a field of a structure that lies in `words`.
inline uint32_t field_u32(const word_t words[], const regmap::Field& field) {
#pragma HLS INLINE
    return u32_at(words[field.word], field.lsb / 32);
}

inline uint64_t field_u64(const word_t words[], const regmap::Field& field) {
#pragma HLS INLINE
    return u64_at(words[field.word], field.lsb / 64);
}

inline void set_field(word_t& word, const regmap::Field& field, uint64_t value) {
#pragma HLS INLINE
    if (field.width == 64) {
        set_u64(word, field.lsb / 64, value);
    } else {
        set_u32(word, field.lsb / 32, uint32_t(value));
    }
}

// Byte offset of a field, as status.detail names it.
inline uint32_t offset_of(const regmap::Field& field) {
#pragma HLS INLINE
    return field.word * WORD_BYTES + field.lsb / 8;
}

// x * 2^places of a number with sign, which `<<` does not promise below zero.
inline int64_t shift_left(int64_t x, uint32_t places) {
#pragma HLS INLINE
    return int64_t(uint64_t(x) << places);
}

constexpr uint64_t round_up(uint64_t value, uint64_t multiple) {
    return (value + multiple - 1) / multiple * multiple;
}

}  // namespace nearkv
