// SPDX-License-Identifier: Apache-2.0
// One attend job: inputs, the walk as a two-deep pipeline of visits, results.
//
// Step n of the walk loads V of visit n - 1 and K of visit n, while it computes what step n - 1 loaded: V of visit n -
// 2 with its weights, and scores and weights of visit n - 1. So K comes before V of the visit ahead, scores and exp2
// hide behind the array, and every buffer is double (docs/architecture.md). Faults are judged in the order of the
// visits.
#pragma once

#include "bins.hpp"
#include "output.hpp"

namespace nearkv {

// What one step loads and the next one computes.
struct Stage {
    Operand k, v;
    Span k_span, v_span;
};

// What the walk carries from step to step on the loading side.
struct Loader {
    Cursor cursor;
    Visit visit[2];  // of K in this step, and of V: the one before
    uint32_t carry[2];
    uint64_t kv_words;
    Fault fault;
};

// Loads K (`kind`) or V of a visit; does nothing after a fault.
inline void load_operand(read_port kv, read_port ctl, const List& list, const Job& job, const Visit& visit,
                         uint32_t kind, Loader& loader, Operand& operand) {
#pragma HLS INLINE off
    RawBlock raw;
    if (failed(loader.fault)) return;
    loader.fault = fetch(kv, ctl, list, job, visit, kind, loader.carry[kind], loader.kv_words, raw);
    if (failed(loader.fault)) return;
    loader.fault = decode(raw, visit, job, kind, operand);
}

inline void load(read_port kv, read_port ctl, const List& list, const Job& job, unsigned parity, bool has_v,
                 Loader& loader, Stage& stage) {
#pragma HLS INLINE off
    Visit &ahead = loader.visit[parity], &behind = loader.visit[1 - parity];
    const bool has_k = !loader.cursor.done;
    stage.v_span = has_v ? behind.span : no_span();
    stage.k_span = no_span();
    if (has_v) load_operand(kv, ctl, list, job, behind, regmap::KIND_V, loader, stage.v);
    if (has_k) {
        plan_visit(ctl, list, job, loader.cursor, ahead);
        stage.k_span = ahead.span;
        load_operand(kv, ctl, list, job, ahead, regmap::KIND_K, loader, stage.k);
    }
}

inline Turn make_turn(uint32_t index, const Job& job, const Stage& loaded) {
#pragma HLS INLINE
    const uint32_t tile = index % TILES, group = index / TILES, first_row = group * ROWS;
    const uint32_t rows = job.rows - first_row < ROWS ? job.rows - first_row : ROWS;
    return {has_tile(loaded.v_span, tile), has_tile(loaded.k_span, tile), tile, group, first_row, rows, job.beats};
}

// V of the older visit with its weights, and scores and weights of the newer one, tile by tile, 8 rows at a time.
inline void compute(const Job& job, const Stage& loaded, const Weights& weights, Weights& next, const Query& query,
                    const Sight sight[ROWS_MAX], State& state, bool clamped[1]) {
#pragma HLS INLINE off
    const uint32_t turns = (job.rows + ROWS - 1) / ROWS * TILES;
TURNS:
    for (uint32_t index = 0; index < turns; ++index) {
#pragma HLS LOOP_TRIPCOUNT min = 8 max = 64
#pragma HLS DATAFLOW
        dots_stream dots;
        heads_stream heads;
        TileWeights aligned;
#pragma HLS ARRAY_RESHAPE variable = aligned.row complete dim = 1
        TileSums sums;
#pragma HLS ARRAY_PARTITION variable = sums.beat complete dim = 2
#pragma HLS ARRAY_RESHAPE variable = sums.beat complete dim = 3
        const Turn turn = make_turn(index, job, loaded);
        align_tile<ROWS, TILE>(turn, weights, loaded.v.exponent, aligned, heads);
        array_tile<ROWS, LANES, TILE>(turn, loaded.v.beats, aligned, loaded.k.beats, query.beats, sums, dots);
        add_tile<ROWS>(turn, heads, sums, state);
        weigh_tile<ROWS, TILE>(turn, loaded.k_span, job, dots, loaded.k.exponent, query.exponent, sight, next, clamped);
    }
}

// The two halves of a step touch different buffers and run side by side.
inline void walk_step(read_port kv, read_port ctl, const List& list, const Job& job, unsigned parity, bool has_v,
                      Loader& loader, Stage& loading, const Stage& loaded, const Weights& weights, Weights& next,
                      const Query& query, const Sight sight[ROWS_MAX], State& state, bool clamped[1]) {
#pragma HLS INLINE off
#pragma HLS DATAFLOW
    load(kv, ctl, list, job, parity, has_v, loader, loading);
    compute(job, loaded, weights, next, query, sight, state, clamped);
}

// Everything of a job but its results. `kv_words` is the status's beats.
inline Fault walk(read_port kv, read_port ctl, const List& list, const Job& job, const Query& query,
                  const Sight sight[ROWS_MAX], State& state, bool clamped[1], uint64_t& kv_words) {
#pragma HLS INLINE off
    // One step loads `even` and computes `odd`, the next one the other way round.
    Stage even, odd;
#pragma HLS ARRAY_RESHAPE variable = even.k.beats.word complete dim = 2
#pragma HLS ARRAY_RESHAPE variable = even.v.beats.word complete dim = 2
#pragma HLS ARRAY_RESHAPE variable = odd.k.beats.word complete dim = 2
#pragma HLS ARRAY_RESHAPE variable = odd.v.beats.word complete dim = 2
    // A row's 16 tokens are read together, four rows are written together.
    Weights even_weights, odd_weights;
#pragma HLS ARRAY_PARTITION variable = even_weights.mantissa cyclic factor = 4 dim = 1
#pragma HLS ARRAY_PARTITION variable = even_weights.mantissa cyclic factor = 16 dim = 2
#pragma HLS ARRAY_PARTITION variable = even_weights.whole cyclic factor = 4 dim = 1
#pragma HLS ARRAY_PARTITION variable = even_weights.whole cyclic factor = 16 dim = 2
#pragma HLS ARRAY_PARTITION variable = odd_weights.mantissa cyclic factor = 4 dim = 1
#pragma HLS ARRAY_PARTITION variable = odd_weights.mantissa cyclic factor = 16 dim = 2
#pragma HLS ARRAY_PARTITION variable = odd_weights.whole cyclic factor = 4 dim = 1
#pragma HLS ARRAY_PARTITION variable = odd_weights.whole cyclic factor = 16 dim = 2
    Loader loader;
    loader.carry[0] = loader.carry[1] = CRC_START;
    loader.kv_words = 0;
    loader.fault = no_fault();
    open_walk(ctl, list, job, loader.cursor);
    even.k_span = even.v_span = odd.k_span = odd.v_span = no_span();
    bool has_v = false, computing = false;
    unsigned parity = 0;
STEPS:
    while (!loader.cursor.done || has_v || computing) {
#pragma HLS LOOP_TRIPCOUNT min = 3 max = 1024
        const bool has_k = !loader.cursor.done;
        computing = has_k || has_v;
        if (parity == 0) {
            walk_step(kv, ctl, list, job, 0, has_v, loader, even, odd, odd_weights, even_weights, query, sight, state,
                      clamped);
        } else {
            walk_step(kv, ctl, list, job, 1, has_v, loader, odd, even, even_weights, odd_weights, query, sight, state,
                      clamped);
        }
        if (failed(loader.fault)) break;
        has_v = has_k;
        parity = 1 - parity;
    }
    kv_words = loader.kv_words;
    return loader.fault;
}

}  // namespace nearkv
