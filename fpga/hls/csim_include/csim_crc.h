// SPDX-License-Identifier: Apache-2.0
// The checksum step of crc32c.hpp with the CPU's instruction. The register goes through tables, so that the eight
// dependent instructions of a word need not wait for the word before.
#pragma once

#include <nmmintrin.h>

#include <cstdint>

namespace nearkv_csim {

// What each byte of the register becomes after 64 zero bytes; `zeros` is the register after a number of zero bits.
struct CrcTables {
    uint32_t byte[4][256];
};

template <typename ZEROS>
constexpr CrcTables make_crc_tables(ZEROS zeros) {
    CrcTables tables = {};
    for (unsigned at = 0; at < 4; ++at) {
        for (unsigned bit = 0; bit < 8; ++bit) {
            const uint32_t column = zeros(1u << (8 * at + bit), 512);
            for (unsigned value = 0; value < 256; ++value) {
                if ((value >> bit & 1) != 0) tables.byte[at][value] ^= column;
            }
        }
    }
    return tables;
}

inline uint32_t crc_step(const CrcTables& tables, uint32_t crc, const uint64_t word[8]) {
    uint64_t data = 0;
    for (unsigned i = 0; i < 8; ++i) data = _mm_crc32_u64(data, word[i]);
    const uint32_t moved = tables.byte[0][crc & 255] ^ tables.byte[1][crc >> 8 & 255] ^
                           tables.byte[2][crc >> 16 & 255] ^ tables.byte[3][crc >> 24];
    return uint32_t(data) ^ moved;
}

}  // namespace nearkv_csim
