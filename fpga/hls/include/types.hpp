// SPDX-License-Identifier: Apache-2.0
// Every number type and size of the kernel, named once. Widths come from fpga/regmap.toml and docs/arithmetic.md.
#pragma once

#include <ap_int.h>

#include <cstdint>

#include "regmap.hpp"

namespace nearkv {

// A signed number of W bits that never wraps, whatever the inputs. The functional emulator (NEARKV_FAST) keeps it in a
// native integer, so that the compiler can vectorise; NEARKV_CHECKED reports one that does not fit.
#if defined(NEARKV_FAST)
template <int W>
using exact = nearkv_csim::native<W, true>;
#elif defined(NEARKV_CHECKED)
template <int W>
using exact = nearkv_csim::Exact<W>;
#else
template <int W>
using exact = ap_int<W>;
#endif

using word_t = ap_uint<512>;  // one AXI beat

constexpr unsigned LANES = regmap::LANES;                                 // elements of one beat
constexpr unsigned ROWS = 8;                                              // rows that the array works on at a time
constexpr unsigned ROWS_MAX = regmap::ROWS_MAX;                           // rows of a job
constexpr unsigned GROUPS_MAX = ROWS_MAX / ROWS;                          // times that a block is walked
constexpr unsigned HEAD_MAX = 256;                                        // largest head size
constexpr unsigned BEATS_MAX = HEAD_MAX / LANES;                          // beats of one row of K or V
constexpr unsigned BLOCK = regmap::BLOCK_TOKENS;                          // tokens on chip
constexpr unsigned TILE = regmap::TILE_TOKENS;                            // tokens summed exactly
constexpr unsigned TILES = BLOCK / TILE;                                  // tiles of a block
constexpr unsigned BLOCK_WORDS = BLOCK * BEATS_MAX;                       // words of a block of K or V
constexpr unsigned BINS = regmap::BINS;                                   // bins of an accumulator
constexpr unsigned WORD_BYTES = regmap::WORD_BYTES;                       //
constexpr unsigned PAGE_WORDS = regmap::PAGE_BYTES / regmap::WORD_BYTES;  // beats of one page
constexpr unsigned TOKENS_MAX = regmap::QUERY_TOKENS_MAX;                 // query tokens of a job

static_assert(LANES * 16 == WORD_BYTES * 8, "one beat carries LANES elements of 16 bits");
static_assert(regmap::HEAD_SIZES[regmap::HEAD_SIZE_COUNT - 1] == HEAD_MAX, "HEAD_MAX is the last of the head sizes");
static_assert(ROWS_MAX % ROWS == 0, "rows are worked on in whole groups");
static_assert(BLOCK % TILE == 0, "a block holds whole tiles");
static_assert(TILE == 1u << 4 && LANES == 1u << 5, "positions and elements are split by shifts");

// q, K and V after conversion: |x| < 2^23, at 2^(e - 23).
using significand_t = exact<regmap::SIGNIFICAND_BITS>;
// Block exponent: -125 to 128 for q, -13 to 16 for K and V.
using exponent_t = exact<9>;
// Exact sum over a row: 46 bits of product, 8 of 256 elements, sign.
using dot_t = exact<55>;
// In log2 units with 24 fraction bits.
using score_t = exact<regmap::SCORE_BITS>;
// floor of a score; EMPTY marks a token that a row does not see.
using whole_t = exact<regmap::SCORE_BITS - regmap::SCORE_FRACTION_BITS + 1>;
// Mantissa of a weight in [1, 2) with 24 fraction bits, without sign; zero for a token that a row does not see.
using mantissa_t = exact<regmap::WEIGHT_FRACTION_BITS + 2>;
// A weight aligned to its tile: 26 bits without sign.
using aligned_t = exact<regmap::ALIGNED_BITS + 1>;
// The second operand of a multiplier: q or an aligned weight.
using factor_t = exact<regmap::ALIGNED_BITS + 1>;
// Sum of 16 products of a weight and V, |x| < 2^53; also the sum of one lane over the beats of a row of K.
using sum_t = exact<regmap::TILE_BITS>;
// Sum of the aligned weights of a tile.
using weight_sum_t = exact<regmap::ALIGNED_BITS + 5>;
// Exponent of a tile, R or Rl: whole_t plus the exponent of V.
using tile_exponent_t = exact<27>;

// One bin. The only number here that may wrap (a state_in at its limits, positions that come twice), and since moves
// and additions commute with the wrap, the emulator may wrap it when it is read out.
#ifdef NEARKV_FAST
using bin_t = int64_t;
#else
using bin_t = ap_int<regmap::BIN_REGISTER_BITS>;
#endif

constexpr int32_t WHOLE_EMPTY = -(1 << 24);  // below every floor of a score

static_assert(regmap::SCORE_BITS - regmap::SCORE_FRACTION_BITS == 24, "WHOLE_EMPTY lies below every whole_t");

}  // namespace nearkv
