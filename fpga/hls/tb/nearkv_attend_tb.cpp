// SPDX-License-Identifier: Apache-2.0
// Smoke test for csim and cosim inside Vitis, and for plain g++: an identify job, and an attend job whose result is
// exact. The full checks are in tests/hls, which drive the same sources from Python.
//
// q is zero, so that every weight is one: L is the number of visible tokens, O the sum of their V.
#include <cstdint>
#include <cstdio>
#include <cstring>

#include "attend.hpp"

extern "C" void nearkv_attend(const nearkv::word_t* kv, const nearkv::word_t* ctl, nearkv::word_t* out);

namespace {

using namespace nearkv;

constexpr uint64_t KV_BASE = 0x4000000000, CTL_BASE = KV_BASE + 0x100000, OUT_BASE = CTL_BASE + 0x100000;
constexpr unsigned HEAD = 64, BEATS = HEAD / LANES, TOKENS = 200, HIDDEN = 60;
constexpr unsigned KV_WORDS = 2 * TOKENS * BEATS, OUT_WORDS = 16;
constexpr unsigned JOBS = 2, LIMIT_WORD = LIST_WORDS + JOBS * JOB_WORDS, Q_WORD = LIMIT_WORD + 1;
constexpr unsigned SEGMENT_WORD = Q_WORD + 2 * BEATS, CTL_WORDS = SEGMENT_WORD + 1;
constexpr uint16_t HALF_ONE_AND_A_HALF = 0x3E00, HALF_TWO = 0x4000;

// Cosimulation copies as many words of each port as its INTERFACE pragma says.
constexpr unsigned PORT_DEPTH = 4096;
static_assert(KV_WORDS <= PORT_DEPTH && CTL_WORDS <= PORT_DEPTH && OUT_WORDS <= PORT_DEPTH, "the lists fit the ports");

word_t kv[PORT_DEPTH], ctl[PORT_DEPTH], out[PORT_DEPTH];

void set(unsigned word, const regmap::Field& field, uint64_t value) {
    set_field(ctl[word + field.word], field, value);
}

void fill_list() {
    namespace at = regmap::list;
    set(0, at::magic, regmap::LIST_MAGIC);
    set(0, at::version, regmap::CONTRACT_VERSION);
    set(0, at::jobs, JOBS);
    set(0, at::kv_base, KV_BASE);
    set(0, at::ctl_base, CTL_BASE);
    set(0, at::out_base, OUT_BASE);
    set(0, at::kv_window, KV_BASE);
    set(0, at::kv_window_nbytes, sizeof(word_t) * KV_WORDS);
    set(0, at::ctl_window, CTL_BASE);
    set(0, at::ctl_window_nbytes, sizeof(word_t) * CTL_WORDS);
    set(0, at::out_window, OUT_BASE);
    set(0, at::out_window_nbytes, sizeof(word_t) * OUT_WORDS);
}

void fill_jobs() {
    namespace at = regmap::job;
    set(LIST_WORDS, at::opcode, regmap::OPCODE_IDENTIFY);
    set(LIST_WORDS, at::out_addr, OUT_BASE + JOBS * WORD_BYTES);
    const unsigned job = LIST_WORDS + JOB_WORDS;
    set(job, at::opcode, regmap::OPCODE_ATTEND);
    set(job, at::head_size, HEAD);
    set(job, at::rows, 1);
    set(job, at::query_tokens, 1);
    set(job, at::scale_mantissa, 1u << 23);
    set(job, at::segments, 1);
    set(job, at::q_addr, CTL_BASE + Q_WORD * WORD_BYTES);
    set(job, at::limits_addr, CTL_BASE + LIMIT_WORD * WORD_BYTES);
    set(job, at::segments_addr, CTL_BASE + SEGMENT_WORD * WORD_BYTES);
    set(job, at::out_addr, OUT_BASE + (JOBS + 1) * WORD_BYTES);
    set(LIMIT_WORD, regmap::limit::limit, TOKENS - HIDDEN);
    namespace segment = regmap::segment;
    set(SEGMENT_WORD, segment::tokens, TOKENS);
    set(SEGMENT_WORD, segment::k_addr, KV_BASE);
    set(SEGMENT_WORD, segment::v_addr, KV_BASE + TOKENS * BEATS * WORD_BYTES);
}

int expect(const char* name, uint64_t found, uint64_t wanted) {
    if (found == wanted) return 0;
    std::printf("%s: found %llx, wanted %llx\n", name, static_cast<unsigned long long>(found),
                static_cast<unsigned long long>(wanted));
    return 1;
}

int expect_float(const char* name, uint32_t bits, float wanted) {
    uint32_t wanted_bits;
    std::memcpy(&wanted_bits, &wanted, sizeof wanted_bits);
    return expect(name, bits, wanted_bits);
}

}  // namespace

int main() {
    for (unsigned w = 0; w < KV_WORDS; ++w) {
        const bool v = w >= TOKENS * BEATS, hidden = (w % (TOKENS * BEATS)) / BEATS >= TOKENS - HIDDEN;
        for (unsigned i = 0; i < LANES; ++i) {
            write_lane<16, uint16_t>(kv[w], i, v && !hidden ? HALF_ONE_AND_A_HALF : HALF_TWO);
        }
    }
    for (word_t& word : ctl) word = 0;
    for (word_t& word : out) word = 0;
    fill_list();
    fill_jobs();

    nearkv_attend(kv, ctl, out);

    const float visible = TOKENS - HIDDEN;
    const unsigned output = JOBS + 1;
    int wrong = expect("identify status", u32_at(out[0], 0), regmap::STATUS_OK);
    wrong += expect("attend status", u32_at(out[1], 0), regmap::STATUS_OK);
    wrong += expect("beats", field_u64(out + 1, regmap::status::beats), KV_WORDS);
    wrong += expect("identity magic", field_u32(out + JOBS, regmap::identity::magic), regmap::IDENTITY_MAGIC);
    wrong += expect("regmap hash", field_u32(out + JOBS, regmap::identity::regmap_hash), regmap::REGMAP_HASH);
    for (unsigned j = 0; j < HEAD; ++j) {
        wrong += expect_float("O", u32_at(out[output + j / FLOATS_PER_WORD], j % FLOATS_PER_WORD), 1.5f * visible);
    }
    wrong += expect_float("L", u32_at(out[output + HEAD / FLOATS_PER_WORD], 0), visible);
    wrong += expect("T", u32_at(out[output + HEAD / FLOATS_PER_WORD], 1), 0);
    std::printf(wrong == 0 ? "pass\n" : "%d differences\n", wrong);
    return wrong == 0 ? 0 : 1;
}
