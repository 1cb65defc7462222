// SPDX-License-Identifier: Apache-2.0
// CRC-32C of pages, one 512-bit word per step.
//
// The step is linear: next = A(crc) xor B(word). B is 32 trees over the word that pipeline freely; only A, 32 x 32
// bits, is in the feedback. NEARKV_FAST replaces the body by the CPU's instruction where there is one.
#pragma once

#include "words.hpp"

#if defined(NEARKV_FAST) && defined(__SSE4_2__)
#include "csim_crc.h"
#endif

namespace nearkv {

constexpr uint32_t CRC_START = 0xFFFFFFFFu;  // the register at the start of a page; its complement is the checksum

// The register after `bits` zero bits.
constexpr uint32_t crc_zeros(uint32_t crc, unsigned bits) {
    for (unsigned i = 0; i < bits; ++i) crc = (crc >> 1) ^ ((crc & 1) != 0 ? regmap::CRC_POLY : 0u);
    return crc;
}

// What each bit of a word contributes to the next register (the columns of B). The register acts like the first 32 bits
// of the word, so the first 32 columns are those of A.
struct CrcColumns {
    uint32_t of_bit[512];
};

constexpr CrcColumns make_crc_columns() {
    CrcColumns columns = {};
    for (unsigned i = 0; i < 32; ++i) columns.of_bit[480 + i] = crc_zeros(1u << i, 32);
    for (unsigned i = 480; i-- > 0;) columns.of_bit[i] = crc_zeros(columns.of_bit[i + 32], 32);
    return columns;
}

constexpr CrcColumns CRC_COLUMNS = make_crc_columns();

#if defined(NEARKV_FAST) && defined(__SSE4_2__)
constexpr nearkv_csim::CrcTables CRC_TABLES = nearkv_csim::make_crc_tables(crc_zeros);
#endif

// The register after one more word; the lowest byte comes first.
inline uint32_t crc_step(uint32_t crc, const word_t& word) {
#pragma HLS INLINE
#if defined(NEARKV_FAST) && defined(__SSE4_2__)
    uint64_t parts[8];
    for (unsigned i = 0; i < 8; ++i) parts[i] = u64_at(word, i);
    return nearkv_csim::crc_step(CRC_TABLES, crc, parts);
#else
    uint32_t next = 0;
FEEDBACK:
    for (unsigned i = 0; i < 32; ++i) {
#pragma HLS UNROLL
        next ^= (crc >> i & 1) != 0 ? CRC_COLUMNS.of_bit[i] : 0u;
    }
DATA:
    for (unsigned at = 0; at < 16; ++at) {
#pragma HLS UNROLL
        const uint32_t lane = u32_at(word, at);
    BITS:
        for (unsigned i = 0; i < 32; ++i) {
#pragma HLS UNROLL
            next ^= (lane >> i & 1) != 0 ? CRC_COLUMNS.of_bit[32 * at + i] : 0u;
        }
    }
    return next;
#endif
}

}  // namespace nearkv
