// SPDX-License-Identifier: Apache-2.0
// The plan of one visit: which rows of which segments fill the block. A visit ends with the block or with the run of
// segments that continue each other. Reads segment descriptors, neither K nor V.
#pragma once

#include "segments.hpp"

namespace nearkv {

// Rows of one segment that belong to a visit. Pages and word phases are those of K and of V alike when it is checked.
struct Part {
    uint32_t segment;
    uint32_t slot;  // first token's place in the block
    uint32_t tokens;
    int64_t k_word, v_word;  // index of the first row on its master
    bool from_ctl;           // new rows come with the list
    bool checked;
    uint32_t head, tail;  // words before and after the rows that complete the outermost pages
    uint32_t page;        // page of the first word, counted from the first that the segment touches
    uint32_t phase;       // place of the first word in that page
    uint64_t crc_addr;    // checksums of the segment
};

// Tokens in slots [low, high) of a block that begins at position `origin`.
struct Span {
    uint32_t origin, low, high;
};

inline Span no_span() {
#pragma HLS INLINE
    return {0, 0, 0};
}

inline bool has_tile(const Span& span, unsigned tile) {
#pragma HLS INLINE
    return span.low < (tile + 1) * TILE && tile * TILE < span.high;
}

struct Visit {
    Span span;
    uint32_t parts;
    Part part[BLOCK];
};

// Where the walk stands.
struct Cursor {
    Segment segment;
    uint32_t index;   // of that segment
    uint32_t offset;  // tokens of it that are already visited
    bool done;
};

inline void open_walk(read_port ctl, const List& list, const Job& job, Cursor& cursor) {
    cursor.index = 0;
    cursor.offset = 0;
    cursor.done = walk_segments(job) == 0;
    if (!cursor.done) cursor.segment = load_segment(ctl, list, job, 0);
}

inline Part make_part(const Cursor& cursor, uint32_t slot, uint32_t tokens, const Job& job, const List& list) {
    const Segment& segment = cursor.segment;
    const uint64_t nbytes = uint64_t(tokens) * job.beats * WORD_BYTES;
    const uint64_t skipped = uint64_t(cursor.offset) * job.beats * WORD_BYTES;
    const uint64_t phase = segment.k_addr % regmap::PAGE_BYTES + skipped;
    const bool opens = cursor.offset == 0, closes = cursor.offset + tokens == segment.tokens;
    Part part;
    part.segment = cursor.index;
    part.slot = slot;
    part.tokens = tokens;
    part.from_ctl = cursor.index == job.segments;
    const uint64_t base = part.from_ctl ? list.ctl.base : list.kv.base;
    part.k_word = word_index(segment.k_addr + skipped, base);
    part.v_word = word_index(segment.v_addr + skipped, base);
    part.checked = segment.crc_addr != 0;
    const uint32_t first = uint32_t(phase % regmap::PAGE_BYTES) / WORD_BYTES;
    const uint32_t last = uint32_t((phase + nbytes) % regmap::PAGE_BYTES) / WORD_BYTES;
    part.head = part.checked && opens ? first : 0;
    part.tail = part.checked && closes && last != 0 ? PAGE_WORDS - last : 0;
    part.page = uint32_t(phase / regmap::PAGE_BYTES);
    part.phase = first - part.head;
    part.crc_addr = segment.crc_addr;
    return part;
}

// Plans the next visit and moves the cursor behind it. The cursor is not done.
inline void plan_visit(read_port ctl, const List& list, const Job& job, Cursor& cursor, Visit& visit) {
#pragma HLS INLINE off
    const uint32_t start = cursor.segment.first_position + cursor.offset;
    uint32_t slot = start % BLOCK, parts = 0;
    visit.span.origin = start - slot;
    visit.span.low = slot;
    bool more = true;
PARTS:
    while (more) {
#pragma HLS LOOP_TRIPCOUNT min = 1 max = BLOCK
        const uint32_t left = cursor.segment.tokens - cursor.offset;
        const uint32_t tokens = left < BLOCK - slot ? left : BLOCK - slot;
        visit.part[parts++] = make_part(cursor, slot, tokens, job, list);
        slot += tokens;
        cursor.offset += tokens;
        more = slot < BLOCK;
        if (cursor.offset == cursor.segment.tokens) {
            const uint32_t end = end_of(cursor.segment);
            ++cursor.index;
            cursor.offset = 0;
            cursor.done = cursor.index == walk_segments(job);
            if (!cursor.done) cursor.segment = load_segment(ctl, list, job, cursor.index);
            more = more && !cursor.done && cursor.segment.first_position == end;
        }
    }
    visit.parts = parts;
    visit.span.high = slot;
}

}  // namespace nearkv
