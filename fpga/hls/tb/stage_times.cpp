// SPDX-License-Identifier: Apache-2.0
// Times each stage of the kernel alone, on one block of 128 tokens: what a g++ build spends where. Its figures say
// nothing of hardware.
#include <chrono>
#include <memory>

#include "attend.hpp"

namespace nearkv {
namespace {

// A block of FP16 rows, sequences of page checksums switched on, and everything that a stage needs.
struct Bench {
    List list;
    Job job;
    Visit visit;
    RawBlock source, raw;
    Operand k, v;
    Query query;
    Weights weights;
    TileWeights aligned[TILES];
    TileSums sums;
    State state;
    Sight sight[ROWS_MAX];
    bool clamped[1];
};

// Pseudo-random FP16 between 2^-6 and 2, either sign.
uint32_t next_half(uint32_t& seed) {
    seed = seed * 1664525u + 1013904223u;
    const uint32_t mantissa = seed >> 12 & 0x3FF, exponent = 9 + (seed >> 22) % 7, sign = seed >> 31;
    return sign << 15 | exponent << 10 | mantissa;
}

void prepare(Bench& bench, uint32_t head_size, uint32_t rows) {
    bench.job = {};
    bench.job.head_size = head_size;
    bench.job.beats = beats_of(head_size);
    bench.job.rows = rows;
    bench.job.query_tokens = rows;
    bench.job.scale_mantissa = 12102203;
    bench.job.scale_exponent = -2;
    bench.visit.span = {0, 0, BLOCK};
    bench.visit.parts = 1;
    bench.visit.part[0] = {};
    bench.visit.part[0].tokens = BLOCK;
    bench.clamped[0] = false;
    uint32_t seed = 1;
    for (uint32_t w = 0; w < BLOCK_WORDS; ++w) {
        for (unsigned i = 0; i < LANES; ++i) write_lane<16, uint16_t>(bench.source.word[w], i, next_half(seed));
    }
    for (uint32_t r = 0; r < rows; ++r) bench.sight[r] = {0, BLOCK};
    for (uint32_t g = 0; g < (rows + ROWS - 1) / ROWS * bench.job.beats; ++g) {
        for (unsigned r = 0; r < ROWS; ++r) {
            for (unsigned i = 0; i < LANES; ++i)
                bench.query.beats.word[g][r][i] = int32_t(seed = seed * 69069u + 1) >> 9;
        }
    }
    for (uint32_t r = 0; r < ROWS_MAX; ++r) bench.query.exponent[r] = 1;
    clear_state(bench.job, bench.state);
}

// Nanoseconds of the fastest of `repeats` calls.
template <typename FUNCTION>
double fastest(unsigned repeats, FUNCTION function) {
    using clock = std::chrono::steady_clock;
    double best = 1e30;
    for (unsigned i = 0; i < repeats; ++i) {
        const auto start = clock::now();
        function();
        const double ns = std::chrono::duration<double, std::nano>(clock::now() - start).count();
        best = ns < best ? ns : best;
    }
    return best;
}

template <typename FUNCTION>
void each_tile(const Job& job, FUNCTION function) {
    for (uint32_t first = 0; first < job.rows; first += ROWS) {
        const uint32_t rows = job.rows - first < ROWS ? job.rows - first : ROWS;
        for (uint32_t tile = 0; tile < TILES; ++tile) function(tile, first, rows);
    }
}

}  // namespace
}  // namespace nearkv

// Nanoseconds per block in ns[7]: copy of K and V, their checksums, decode of K and V, array with K, array with V,
// scores and weights, tiles and bins.
extern "C" void nearkv_stage_times(uint32_t head_size, uint32_t rows, uint32_t repeats, double ns[7]) {
    using namespace nearkv;
    const auto owner = std::make_unique<Bench>();
    Bench& bench = *owner;
    prepare(bench, head_size, rows);
    const Job& job = bench.job;
    const uint32_t words = BLOCK * job.beats;
    Part& part = bench.visit.part[0];
    FinishedPage pages[FINISHED_MAX];
    ns[0] = 2 * fastest(repeats, [&] { copy_rows(bench.source.word, words, 0, bench.raw); });
    part.checked = true;
    ns[1] = 2 * fastest(repeats, [&] {
                uint32_t finished = 0;
                copy_pages(bench.source.word, part, 0, words, 0, CRC_START, bench.raw, pages, finished);
            });
    ns[1] = ns[1] > ns[0] ? ns[1] - ns[0] : 0;
    ns[2] = fastest(repeats, [&] { decode(bench.raw, bench.visit, job, regmap::KIND_V, bench.v); });
    ns[2] += fastest(repeats, [&] { decode(bench.raw, bench.visit, job, regmap::KIND_K, bench.k); });
    dots_stream dots;
    heads_stream heads;
    const auto turn = [&](bool v, bool k, uint32_t tile, uint32_t first, uint32_t count) {
        return Turn{v, k, tile, first / ROWS, first, count, job.beats};
    };
    const auto array = [&](const Turn& t) {
        array_tile<ROWS, LANES, TILE>(t, bench.v.beats, bench.aligned[t.tile], bench.k.beats, bench.query.beats,
                                      bench.sums, dots);
    };
    ns[3] = fastest(repeats, [&] {
        each_tile(job, [&](uint32_t tile, uint32_t first, uint32_t count) {
            array(turn(false, true, tile, first, count));
            while (!dots.empty()) dots.read();
        });
    });
    ns[5] = fastest(repeats, [&] {
        each_tile(job, [&](uint32_t tile, uint32_t first, uint32_t count) {
            const Turn t = turn(false, true, tile, first, count);
            array(t);
            weigh_tile<ROWS, TILE>(t, bench.visit.span, job, dots, bench.k.exponent, bench.query.exponent, bench.sight,
                                   bench.weights, bench.clamped);
        });
    });
    ns[5] = ns[5] > ns[3] ? ns[5] - ns[3] : 0;
    ns[6] = fastest(repeats, [&] {
        each_tile(job, [&](uint32_t tile, uint32_t first, uint32_t count) {
            const Turn t = turn(true, false, tile, first, count);
            align_tile<ROWS, TILE>(t, bench.weights, bench.v.exponent, bench.aligned[tile], heads);
            add_tile<ROWS>(t, heads, bench.sums, bench.state);
        });
    });
    ns[4] = fastest(repeats, [&] {
        each_tile(job,
                  [&](uint32_t tile, uint32_t first, uint32_t count) { array(turn(true, false, tile, first, count)); });
    });
}
