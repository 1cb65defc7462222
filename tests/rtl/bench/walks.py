# SPDX-License-Identifier: Apache-2.0
"""Random segments of jobs, and what the walk makes of them by `model_walk`: pieces, visits, the order of the steps. No
test of its own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

from nearkv_driver import regmap as rm
from nearkv_emulation.model_descriptors import Segment
from nearkv_emulation.model_walk import Slice, _extent, visits

# words of a row, and whether its last word is half padding
SHAPES = ((2, False), (3, True), (3, False), (4, True), (4, False), (8, False))
LENGTHS = (1, 2, 15, 16, 17, 31, 127, 128, 129)
WORD, PAGE = rm.WORD_BYTES, rm.PAGE_BYTES


@dataclass(frozen=True)
class Walk:
    """A job as the walk sees it: segments, the new rows last."""

    segments: tuple[Segment, ...]
    chunks: int
    half_last: bool
    rows: int
    parity: int

    @property
    def stored(self) -> list[Segment]:
        return [s for s in self.segments if not s.new]

    @property
    def groups(self) -> int:
        """Groups of 8 rows, less one."""
        return (self.rows - 1) // 8


def random_walk(
    random: Random, parity: int, lengths: tuple[int, ...] = LENGTHS, count: int | None = None, together: float = 0.7
) -> Walk:
    """Segments, some checked, some of one token; at times new rows, at times nothing at all. `together`: how often a
    segment begins where the one before it ended."""
    chunks, half_last = random.choice(SHAPES)
    row = chunks * WORD
    segments: list[Segment] = []
    follows, end = False, 0
    for index in range(random.choice([0, 1, 1, 2, 3, 6]) if count is None else count):
        tokens = random.choice(lengths)
        first = end if follows else 16 * random.choice([0, 1, 7, 8, random.randrange(2**16)])
        # Pages near the end of the address space, and offsets of both ends inside their pages.
        page, offset = random.randrange(2**40, 2**51) * PAGE, random.randrange(64) * WORD
        checked = random.random() < 0.6
        k, v = (page + gap * 2**30 + offset for gap in (0, 1))
        crc = random.randrange(1, 2**50) * 8 if checked else 0
        segments.append(Segment(index, tokens, first, k, v, crc, row))
        follows, end = random.random() < together, first + tokens
    if random.random() < 0.4:
        first = end if follows else 16 * random.randrange(2**16)
        tokens = random.choice([1, 2, 16, 17, 64])
        k, v = (random.randrange(2**57) * WORD for _ in range(2))
        segments.append(Segment(len(segments), tokens, first, k, v, 0, row, True))
    return Walk(tuple(segments), chunks, half_last, random.choice([1, 8, 9, 33, 64]), parity)


def _piece(walk: Walk, part: Slice, visit: list[Slice], last: bool) -> dict[str, int]:
    s, row = part.segment, part.segment.row_nbytes
    at, size = part.start * row, part.tokens * row
    begin, end = (s.k_addr + at, s.k_addr + at + size)
    whole = _extent(part, rm.Kind.K) if s.crc_addr else (begin, end)
    return {
        "visit_first": part is visit[0],
        "visit_last": part is visit[-1],
        "job_last": last and part is visit[-1],
        "parity": walk.parity,
        "half_last": walk.half_last,
        "chunks": walk.chunks,
        "groups": walk.groups,
        "is_new": s.new,
        "checked": s.crc_addr != 0,
        "tokens": part.tokens,
        "slot": part.position % rm.BLOCK_TOKENS,
        "block": part.position // rm.BLOCK_TOKENS,
        "before": (begin - whole[0]) // WORD,
        "after": (whole[1] - end) // WORD,
        "segment": s.index,
        "page": (begin - s.pages(s.k_addr)[0]) // PAGE if s.crc_addr else 0,
        "k_word": begin // WORD,
        "v_word": (s.v_addr + at) // WORD,
    }


def empty_piece(walk: Walk, segment: int, **changes: int) -> dict[str, int]:
    """What ends a job that has nothing to read."""
    base = dict.fromkeys(("block", "slot", "tokens", "before", "after", "page", "k_word", "v_word", "checked"), 0)
    base |= {"visit_first": 1, "visit_last": 1, "job_last": 1, "is_new": 1, "segment": segment}
    base |= {"parity": walk.parity, "half_last": walk.half_last, "chunks": walk.chunks, "groups": walk.groups}
    return base | changes


def pieces(walk: Walk) -> list[list[dict[str, int]]]:
    """The pieces of each visit of a job."""
    parted = list(visits(walk.segments))
    if not parted:
        return [[empty_piece(walk, 0)]]
    return [[_piece(walk, s, visit, visit is parted[-1]) for s in visit] for visit in parted]


def task(piece: dict[str, int], is_v: bool) -> dict[str, int]:
    """What step_reader makes of a piece."""
    kept = {name: piece[name] for name in TASK_OF_PIECE}
    return kept | {"is_v": is_v, "word": piece["v_word" if is_v else "k_word"] - piece["before"]}


TASK_OF_PIECE = ("visit_first", "visit_last", "job_last", "half_last", "chunks", "is_new", "checked", "tokens", "slot")
TASK_OF_PIECE += ("block", "before", "after", "segment", "page")


def steps(parted: list[list[dict[str, int]]]) -> Iterator[list[dict[str, int]]]:
    """Tasks of the steps of all visits in the order of the reads: K of the next visit before V of this one."""
    for number, visit in enumerate(parted):
        yield [task(piece, False) for piece in visit]
        if number:
            yield [task(piece, True) for piece in parted[number - 1]]
    if parted:
        yield [task(piece, True) for piece in parted[-1]]


def words_of(piece: dict[str, int]) -> int:
    """Words that a piece or a task reads."""
    return piece["before"] + piece["tokens"] * piece["chunks"] + piece["after"]
