// SPDX-License-Identifier: Apache-2.0
// The multiplier array for g++: the sums of array.hpp, in another order and in double precision, and still exact.
//
// Every product and every partial sum is an integer of at most 2^53: 16 products of a weight below 2^26 and V below
// 2^23; up to 128 products of q and K below 2^23. Such integers and their sums are exact in a double, whatever the
// order and with or without fused multiply-add. CPUs without 64-bit vector multiplication do this several times as fast
// as integers.
#pragma once

#include <cstdint>
#include <cstring>

namespace nearkv_csim {

// Four lanes; g++ maps them to whatever vectors the CPU has.
typedef double Lanes4 __attribute__((vector_size(32)));
typedef int64_t Integers4 __attribute__((vector_size(32)));
typedef int32_t Elements4 __attribute__((vector_size(16)));

// The integers that doubles hold, |x| <= 2^53 (a cast between vectors keeps the bits). Adding 1.5 * 2^52 puts an
// integer below 2^51 into the low bits; two steps of 26 bits cover the rest.
inline Integers4 exact_integers(Lanes4 x) {
    constexpr double SHIFTER = 6755399441055744.0, UNIT = 67108864.0;
    const Lanes4 zero = Lanes4{} + SHIFTER;
    const Lanes4 shifted = x * (1 / UNIT) + zero;
    const Lanes4 rest = (x - (shifted - zero) * UNIT) + zero;
    const Integers4 origin = (Integers4)zero;
    const Integers4 high = (Integers4)shifted - origin;
    return (high << 26) + ((Integers4)rest - origin);
}

// Elements 4 * i .. 4 * i + 3 of a beat as doubles.
inline Lanes4 widen(const int32_t beat[], unsigned i) {
    Elements4 elements;
    std::memcpy(&elements, beat + 4 * i, sizeof elements);
    return __builtin_convertvector(elements, Lanes4);
}

// sums[beat][row][lane] = sum over tokens of v[token * beats + beat][lane] * weights[row][token]
template <unsigned ROWS, unsigned LANES, unsigned TILE, unsigned BEATS_MAX>
void weighted_sums(unsigned rows, unsigned beats, const int32_t v[][LANES], const int32_t weights[ROWS][TILE],
                   int64_t sums[][ROWS][LANES]) {
    constexpr unsigned VECTORS = LANES / 4;
    for (unsigned b = 0; b < beats; ++b) {
        Lanes4 wide[TILE][VECTORS];
        for (unsigned t = 0; t < TILE; ++t) {
            for (unsigned i = 0; i < VECTORS; ++i) wide[t][i] = widen(v[t * beats + b], i);
        }
        for (unsigned r = 0; r < rows; ++r) {
            Lanes4 sum[VECTORS] = {};
            for (unsigned t = 0; t < TILE; ++t) {
                const double weight = weights[r][t];
                for (unsigned i = 0; i < VECTORS; ++i) sum[i] += wide[t][i] * weight;
            }
            for (unsigned i = 0; i < VECTORS; ++i) {
                const Integers4 whole = exact_integers(sum[i]);
                std::memcpy(&sums[b][r][4 * i], &whole, sizeof whole);
            }
        }
    }
}

// found[token][row] = sum over elements of k[token * beats + beat][lane] * q[beat][row][lane]
template <unsigned ROWS, unsigned LANES, unsigned TILE, unsigned BEATS_MAX>
void dots(unsigned rows, unsigned beats, const int32_t k[][LANES], const int32_t q[][ROWS][LANES],
          int64_t found[TILE][ROWS]) {
    constexpr unsigned VECTORS = LANES / 4, AT_ONCE = 4;
    Lanes4 wide[TILE * BEATS_MAX][VECTORS];
    for (unsigned n = 0; n < TILE * beats; ++n) {
        for (unsigned i = 0; i < VECTORS; ++i) wide[n][i] = widen(k[n], i);
    }
    for (unsigned r = 0; r < rows; ++r) {
        Lanes4 row[BEATS_MAX][VECTORS];
        for (unsigned b = 0; b < beats; ++b) {
            for (unsigned i = 0; i < VECTORS; ++i) row[b][i] = widen(q[b][r], i);
        }
        for (unsigned t = 0; t < TILE; t += AT_ONCE) {
            // Two sums of at most 128 products for each token.
            Lanes4 sum[AT_ONCE][2] = {};
            for (unsigned b = 0; b < beats; ++b) {
                for (unsigned i = 0; i < VECTORS; ++i) {
                    for (unsigned a = 0; a < AT_ONCE; ++a) {
                        sum[a][i % 2] += wide[(t + a) * beats + b][i] * row[b][i];
                    }
                }
            }
            for (unsigned a = 0; a < AT_ONCE; ++a) {
                const Lanes4 even = sum[a][0], odd = sum[a][1];
                found[t + a][r] =
                    int64_t((even[0] + even[1]) + (even[2] + even[3])) + int64_t((odd[0] + odd[1]) + (odd[2] + odd[3]));
            }
        }
    }
}

}  // namespace nearkv_csim
