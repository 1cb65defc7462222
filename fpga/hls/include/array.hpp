// SPDX-License-Identifier: Apache-2.0
// The multiplier array: LANES x ROWS products per step, summed in one accumulator each. K and V share it, since the
// memory port delivers one or the other: V with the aligned weights of a tile, then K with q.
#pragma once

#include <hls_stream.h>

#include "query.hpp"

#ifdef NEARKV_FAST
#include "csim_array.h"
#endif

namespace nearkv {

// Aligned weights of one tile for the rows of a group; zero where a row does not see the token.
struct TileWeights {
    aligned_t row[ROWS][TILE];
};

// Sums over the 16 tokens of a tile, by beat.
struct TileSums {
    sum_t beat[BEATS_MAX][ROWS][LANES];
};

// Dots of one token with the rows of a group.
struct Dots {
    dot_t row[ROWS];
};

using dots_stream = hls::stream<Dots, TILE>;

// One tile of one group of rows: what every stage behind the buffers works on at a time.
struct Turn {
    bool v, k;  // which operands have something in this tile
    uint32_t tile, group, first_row;
    uint32_t rows;  // of the group that are in use
    uint32_t beats;
};

#ifdef NEARKV_FAST
static_assert(sizeof(significand_t) == 4 && sizeof(aligned_t) == 4 && sizeof(sum_t) == 8, "as csim_array.h takes them");
#endif

// Both sums of one tile. Every step multiplies one beat; V walks tokens innermost, K walks beats innermost, so that an
// accumulator holds one sum at a time. NEARKV_FAST walks rows outermost instead: the sums are exact, so their order
// cannot change them.
template <unsigned N_ROWS, unsigned N_LANES, unsigned N_TILE>
void array_tile(const Turn& turn, const Beats& v, const TileWeights& weights, const Beats& k, const QueryBeats& query,
                TileSums& sums, dots_stream& dots) {
#pragma HLS INLINE off
    static_assert((N_LANES & (N_LANES - 1)) == 0, "lanes are summed by a binary tree");
    const uint32_t base = turn.tile * N_TILE * turn.beats, q_base = turn.group * turn.beats;
#ifdef NEARKV_FAST
    if (turn.v) {
        nearkv_csim::weighted_sums<N_ROWS, N_LANES, N_TILE, BEATS_MAX>(turn.rows, turn.beats, v.word + base,
                                                                       weights.row, sums.beat);
    }
    if (turn.k) {
        int64_t found[N_TILE][N_ROWS];
        nearkv_csim::dots<N_ROWS, N_LANES, N_TILE, BEATS_MAX>(turn.rows, turn.beats, k.word + base, query.word + q_base,
                                                              found);
        for (unsigned t = 0; t < N_TILE; ++t) {
            Dots one = {};
            for (unsigned r = 0; r < turn.rows; ++r) one.row[r] = found[t][r];
            dots.write(one);
        }
    }
#else
    sum_t accumulator[N_ROWS][N_LANES];
#pragma HLS ARRAY_PARTITION variable = accumulator complete dim = 0
    const uint32_t v_steps = turn.v ? N_TILE * turn.beats : 0, k_steps = turn.k ? N_TILE * turn.beats : 0;
    uint32_t token = 0, beat = 0;
STEPS:
    for (uint32_t step = 0; step < v_steps + k_steps; ++step) {
#pragma HLS LOOP_TRIPCOUNT min = 64 max = 256
#pragma HLS PIPELINE II = 1
        const bool v_step = step < v_steps;
        const bool first = v_step ? token == 0 : beat == 0;
        const bool last = v_step ? token + 1 == N_TILE : beat + 1 == turn.beats;
        const uint32_t at = base + token * turn.beats + beat;
        Dots finished;
    ROW:
        for (unsigned r = 0; r < N_ROWS; ++r) {
#pragma HLS UNROLL
            int64_t tree = 0;
        LANE:
            for (unsigned i = 0; i < N_LANES; ++i) {
#pragma HLS UNROLL
                const significand_t x = v_step ? v.word[at][i] : k.word[at][i];
                const factor_t y = v_step ? factor_t(weights.row[r][token]) : factor_t(query.word[q_base + beat][r][i]);
                const sum_t product = sum_t(int64_t(x) * int64_t(y));  // 24 x 27 bits: two DSP48E2
                const sum_t sum = first ? product : sum_t(accumulator[r][i] + product);
                accumulator[r][i] = sum;
                if (v_step && last) sums.beat[beat][r][i] = sum;
                tree += int64_t(sum);
            }
            finished.row[r] = v_step || !last ? dot_t(0) : dot_t(tree);
        }
        if (!v_step && last) dots.write(finished);
        if (last) {
            token = v_step ? 0 : token + 1;
            beat = v_step ? beat + 1 : 0;
            if (step + 1 == v_steps) beat = 0;
        } else if (v_step) {
            ++token;
        } else {
            ++beat;
        }
    }
#endif
}

}  // namespace nearkv
