// SPDX-License-Identifier: Apache-2.0
// The multiplier array for g++: the sums of array.hpp with rows outermost, so that they stay in vector registers.
#pragma once

#include <cstdint>

namespace nearkv_csim {

// sums[beat][row][lane] = sum over tokens of v[token][beat][lane] * weights[token][row]
template <unsigned ROWS, unsigned LANES, unsigned TILE>
void weighted_sums(unsigned rows, unsigned beats, const int32_t v[][LANES], const int32_t weights[TILE][ROWS],
                   int64_t sums[][ROWS][LANES]) {
    for (unsigned r = 0; r < rows; ++r) {
        for (unsigned b = 0; b < beats; ++b) {
            int64_t sum[LANES] = {};
            for (unsigned t = 0; t < TILE; ++t) {
                for (unsigned i = 0; i < LANES; ++i) sum[i] += int64_t(v[t * beats + b][i]) * weights[t][r];
            }
            for (unsigned i = 0; i < LANES; ++i) sums[b][r][i] = sum[i];
        }
    }
}

// found[token][row] = sum over elements of k[token][beat][lane] * q[beat][row][lane]
template <unsigned ROWS, unsigned LANES, unsigned TILE>
void dots(unsigned rows, unsigned beats, const int32_t k[][LANES], const int32_t q[][ROWS][LANES],
          int64_t found[TILE][ROWS]) {
    for (unsigned r = 0; r < rows; ++r) {
        for (unsigned t = 0; t < TILE; ++t) {
            int64_t sum = 0;
            for (unsigned b = 0; b < beats; ++b) {
                for (unsigned i = 0; i < LANES; ++i) sum += int64_t(k[t * beats + b][i]) * q[b][r][i];
            }
            found[t][r] = sum;
        }
    }
}

}  // namespace nearkv_csim
