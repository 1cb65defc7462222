# SPDX-License-Identifier: Apache-2.0
"""Images broken in one place each, with the status that docs/kernel-contract.md asks for.

Faults of descriptors, one function per status;
`mutations_data` has those of data. Every image holds three jobs: the first is sound, the second is broken, the third is
not run. Expected values are written out here, not taken from an implementation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from nearkv_driver import regmap as rm
from nearkv_driver.layout import Layout

from tests.support.jobs import IDENTIFY, Image, Job, Segment, build, padded, poke, state_nbytes

BROKEN = 1  # index of the job that is broken
HEAD_SIZE = 80  # padded to 96: the padding is there to be ignored
NA = rm.NOT_APPLICABLE
WINDOWS = ("kv", "ctl", "out")


@dataclass(frozen=True)
class Broken:
    """An image and the fields of its status that its fault decides; `job` is NA when the list is refused."""

    name: str
    image: Image
    code: rm.Status
    expected: dict[str, int]
    job: int = BROKEN


def sound(seed: int = 20) -> Image:
    """Three jobs that are all accepted; the second uses every descriptor field."""
    rng = np.random.default_rng(seed)

    def rows(n: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float16]]:
        return rng.normal(size=(n, HEAD_SIZE)).astype(np.float16)

    def q(n: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
        return rng.normal(size=(n, HEAD_SIZE)).astype(np.float32)

    # 30 tokens of 192 bytes from 3968 on straddle two pages; the second segment follows it, the third starts anew.
    segments = [
        Segment(112, rows(30), rows(30), checked=True, offset=3968),
        Segment(142, rows(5), rows(5), checked=True, offset=64),
        Segment(16, rows(17), rows(17)),
    ]
    state = np.zeros(state_nbytes(4, HEAD_SIZE) // 8, np.int64)
    last = 4 * 3 * padded(HEAD_SIZE)
    state[last + 3 : last + 16 : 4] = (rm.EMPTY_T, 0, -3, 2)
    state[last + 4] = 2**48
    full = Job(
        q=q(4),
        limits=[(0, 144), (3, 148)],
        scale=0.1,
        segments=segments,
        new=Segment(33, rows(3), rows(3)),
        tail=True,
        window=100,
        state_in=state.tobytes(),
        state_out=True,
    )
    plain = Job(q=q(1), limits=[(0, 20)], scale=0.1, segments=[Segment(0, rows(20), rows(20))])
    return build([plain, full, IDENTIFY])


def header_address(image: Image, name: str) -> int:
    return image.ctl + rm.LIST.offset[name]


def job_address(image: Image, offset: int, job: int = BROKEN) -> int:
    return image.ctl + rm.LIST.nbytes + rm.JOB.nbytes * job + offset


def packed(layout: Layout, name: str, value: int) -> bytes:
    """A field's bytes alone."""
    whole = layout.pack(**{name: value})
    field = next(f for f in layout.fields if f.name == name)
    return whole[field.offset : field.offset + (8 if field.type == "u64" else 4)]


def poke_header(image: Image, **fields: int) -> Image:
    for name, value in fields.items():
        image = poke(image, header_address(image, name), packed(rm.LIST, name, value))
    return image


def poke_job(image: Image, **fields: int) -> Image:
    for name, value in fields.items():
        image = poke(image, job_address(image, rm.JOB.offset[name]), packed(rm.JOB, name, value))
    return image


def poke_segment(image: Image, segment: int, **fields: int) -> Image:
    address = image.placed[BROKEN]["segments_addr"] + rm.SEGMENT.nbytes * segment
    for name, value in fields.items():
        image = poke(image, address + rm.SEGMENT.offset[name], packed(rm.SEGMENT, name, value))
    return image


def segment_fields(image: Image, segment: int) -> dict[str, int]:
    at = image.at(image.placed[BROKEN]["segments_addr"]) + rm.SEGMENT.nbytes * segment
    return rm.SEGMENT.unpack(image.memory[at : at + rm.SEGMENT.nbytes].tobytes())


def bad_lists(image: Image) -> Iterator[Broken]:
    """Every field of the list header, and its reserved words."""

    def case(name: str, field: str, **fields: int) -> Broken:
        detail = {"detail": rm.LIST.offset[field]}
        return Broken(f"list-{name}", poke_header(image, **fields), rm.Status.BAD_LIST, detail, NA)

    yield case("magic", "magic", magic=rm.LIST_MAGIC + 1)
    yield case("version", "version", version=rm.CONTRACT_VERSION + 1)
    yield case("no-jobs", "jobs", jobs=0)
    yield case("many-jobs", "jobs", jobs=rm.JOBS_MAX + 1)
    for offset in (12, *range(88, rm.LIST.nbytes, 4)):
        broken = poke(image, image.ctl + offset, b"\0\0\x01\0")
        yield Broken(f"list-reserved-{offset}", broken, rm.Status.BAD_LIST, {"detail": offset}, NA)
    for name in WINDOWS:
        base = getattr(image, name)
        window, nbytes = f"{name}_window", f"{name}_window_nbytes"
        yield case(f"{name}-base", f"{name}_base", **{f"{name}_base": base + 64})
        yield case(f"{name}-window-unaligned", window, **{window: image.base - 32})
        yield case(f"{name}-window-empty", nbytes, **{nbytes: 0})
        yield case(f"{name}-window-odd", nbytes, **{nbytes: len(image.memory) - 8})
        yield case(f"{name}-window-wraps", nbytes, **{nbytes: 2**64 - 64})
        yield case(f"{name}-window-after-base", window, **{window: base + 64, nbytes: 64})
        yield case(f"{name}-window-before-base", window, **{window: base - 64, nbytes: 64})
        # The size is judged before the base is looked for.
        yield case(f"{name}-window-size-first", nbytes, **{window: base + 64, nbytes: 0})
    for name in ("ctl", "out"):
        used = (rm.LIST.nbytes + 3 * rm.JOB.nbytes) if name == "ctl" else 3 * rm.STATUS.nbytes
        start, nbytes = getattr(image, name), f"{name}_window_nbytes"
        yield case(f"{name}-window-short", nbytes, **{f"{name}_window": start, nbytes: used - 64})
    # To the last byte of the address space is not past it: the next fault is reported.
    to_the_end = poke(poke_header(image, kv_window_nbytes=2**64 - image.base), image.ctl + 124, b"\1")
    yield Broken("list-window-to-the-end", to_the_end, rm.Status.BAD_LIST, {"detail": 124}, NA)
    yield case("first-field-wins", "jobs", jobs=0, kv_base=1, out_window_nbytes=0)


def bad_jobs(image: Image) -> Iterator[Broken]:
    """Every field of a job, its reserved words, and fields that depend on others."""
    f = image.placed[BROKEN]
    end = image.base + len(image.memory)

    def case(name: str, field: str, **fields: int) -> Broken:
        detail = {"detail": rm.JOB.offset[field]}
        return Broken(f"job-{name}", poke_job(image, **fields), rm.Status.BAD_JOB, detail)

    for opcode in (0, 3, 2**31):
        yield case(f"opcode-{opcode}", "opcode", opcode=opcode)
    wrong: dict[str, tuple[int, ...]] = {
        "flags": (2, 2**31),
        "head_size": (0, 32, 72, 96 + 256, 2**31),
        "element_format": (1,),
        "rows": (0, rm.ROWS_MAX + 1),
        "query_tokens": (0, 3, 8, rm.QUERY_TOKENS_MAX + 1),
        "scale_mantissa": (0, 2**23 - 1, 2**24),
        "scale_exponent": (-127, 128),
        "window": (rm.POSITIONS_MAX,),
        "segments": (rm.SEGMENTS_MAX + 1,),
        "new_tokens": (rm.NEW_TOKENS_MAX + 1,),
    }
    for field, values in wrong.items():
        for value in values:
            yield case(f"{field}-{value}", field, **{field: value})
    for field in ("q_addr", "limits_addr", "segments_addr", "new_k_addr", "new_v_addr"):
        yield case(f"{field}-missing", field, **{field: 0})
    for field in [name for name in rm.JOB.offset if name.endswith("_addr") or name.startswith("state_")]:
        yield case(f"{field}-unaligned", field, **{field: f[field] + 32})
        yield case(f"{field}-past-the-end", field, **{field: end - (0 if field == "limits_addr" else 64)})
        yield case(f"{field}-before", field, **{field: image.base - 64})
        yield case(f"{field}-far", field, **{field: 2**64 - 64})
    yield case("segments-not-there", "segments_addr", segments=0)
    yield case("new-first-alone", "new_first", new_tokens=0)
    nothing_new = {"new_tokens": 0, "new_first": 0}
    yield case("new-k-alone", "new_k_addr", **nothing_new)
    yield case("new-v-alone", "new_v_addr", **nothing_new, new_k_addr=0)
    yield case("tail-alone", "tail_k_addr", **nothing_new, new_k_addr=0, new_v_addr=0)
    yield case("tail-v-alone", "tail_v_addr", tail_k_addr=0)
    yield case("tail-v-missing", "tail_v_addr", tail_v_addr=0)
    raw = end - state_nbytes(4, HEAD_SIZE) + 64
    yield case("raw-is-longer", "out_addr", flags=rm.JobFlag.RAW, out_addr=raw)
    yield case("new-first-unaligned", "new_first", new_first=34)
    yield case("new-first-past-the-end", "new_first", new_first=rm.POSITIONS_MAX)
    for offset in range(rm.JOB.offset["out_addr"] + 8, rm.JOB.nbytes, 4):
        broken = poke(image, job_address(image, offset), b"\x01\0\0\0")
        yield Broken(f"job-reserved-{offset}", broken, rm.Status.BAD_JOB, {"detail": offset})


def bad_identify(image: Image) -> Iterator[Broken]:
    """An identify job has nothing but its opcode and where to write."""
    for field in rm.JOB.fields:
        if field.name not in ("opcode", "out_addr"):
            bare = poke(image, job_address(image, 0), rm.JOB.pack(opcode=1, out_addr=image.placed[BROKEN]["out_addr"]))
            at = field.offset + (4 if field.type == "u64" else 0)
            broken = poke(bare, job_address(image, at), b"\0\x01\0\0")
            yield Broken(f"identify-{field.name}", broken, rm.Status.BAD_JOB, {"detail": field.offset})
    for name, out_addr in (("missing", 0), ("unaligned", image.out + 8), ("outside", image.base + len(image.memory))):
        broken = poke(image, job_address(image, 0), rm.JOB.pack(opcode=1, out_addr=out_addr))
        yield Broken(f"identify-out-{name}", broken, rm.Status.BAD_JOB, {"detail": rm.JOB.offset["out_addr"]})
    bare = poke(image, job_address(image, 0), rm.JOB.pack(opcode=1, out_addr=image.placed[BROKEN]["out_addr"]))
    broken = poke(bare, job_address(image, 252), b"\0\0\0\x80")
    yield Broken("identify-reserved", broken, rm.Status.BAD_JOB, {"detail": 252})


def bad_limits(image: Image) -> Iterator[Broken]:
    for token in (0, 1):
        for field in ("first", "limit"):
            offset = rm.LIMIT.offset[field]
            address = image.placed[BROKEN]["limits_addr"] + rm.LIMIT.nbytes * token + offset
            broken = poke(image, address, packed(rm.LIMIT, field, rm.POSITIONS_MAX + 1))
            expected = {"position": token, "detail": offset}
            yield Broken(f"limit-{token}-{field}", broken, rm.Status.BAD_LIMIT, expected)


def bad_segments(image: Image) -> Iterator[Broken]:
    """Every field of a segment, its reserved words and the rules for checked pages."""
    end = image.base + len(image.memory)
    first = segment_fields(image, 0)

    def case(name: str, segment: int, field: str, **fields: int) -> Broken:
        expected = {"segment": segment, "detail": rm.SEGMENT.offset[field]}
        broken = poke_segment(image, segment, **fields)
        return Broken(f"segment-{name}", broken, rm.Status.BAD_SEGMENT, expected)

    yield case("no-tokens", 1, "tokens", tokens=0)
    yield case("many-tokens", 1, "first_position", tokens=2**32 - 1)
    yield case("position-off-tile", 0, "first_position", first_position=113)
    yield case("position-no-successor", 1, "first_position", first_position=143)
    yield case("position-too-high", 2, "first_position", first_position=rm.POSITIONS_MAX - 16)
    for field in ("k_addr", "v_addr"):
        yield case(f"{field}-missing", 2, field, **{field: 0})
        yield case(f"{field}-unaligned", 2, field, **{field: first[field] + 2})
        yield case(f"{field}-past-the-end", 2, field, **{field: end - 64})
        yield case(f"{field}-before", 2, field, **{field: image.base - 64})
        yield case(f"{field}-wraps", 2, field, **{field: 2**64 - 64})
    yield case("crc-odd", 0, "crc_addr", crc_addr=first["crc_addr"] + 4)
    yield case("crc-past-the-end", 0, "crc_addr", crc_addr=end - 8)
    yield case("crc-before", 0, "crc_addr", crc_addr=image.base - 8)
    yield case("crc-pages-differ", 0, "crc_addr", v_addr=first["v_addr"] + 64)
    for offset in range(32, rm.SEGMENT.nbytes, 4):
        address = image.placed[BROKEN]["segments_addr"] + rm.SEGMENT.nbytes * 2 + offset
        expected = {"segment": 2, "detail": offset}
        yield Broken(f"segment-reserved-{offset}", poke(image, address, b"\0\0\0\x01"), rm.Status.BAD_SEGMENT, expected)
    # Rows inside the window whose whole pages are not: the window of kv begins or ends inside a page.
    first_job = rm.JOB.pack(opcode=rm.Opcode.IDENTIFY, out_addr=image.placed[0]["out_addr"])
    alone = poke(image, job_address(image, 0, job=0), first_job)
    start = image.base + 128
    low = replace(alone, kv=start, jobs=(IDENTIFY, *image.jobs[1:]))
    low = poke_header(low, kv_base=start, kv_window=start, kv_window_nbytes=len(image.memory) - 128)
    low = poke_segment(low, 0, k_addr=start, v_addr=start)
    high = poke_header(image, kv_window_nbytes=first["v_addr"] + 30 * 192 - image.base)
    for name, broken in (("low", low), ("high", high)):
        expected = {"segment": 0, "detail": rm.SEGMENT.offset["crc_addr"]}
        yield Broken(f"segment-pages-{name}", broken, rm.Status.BAD_SEGMENT, expected)


Group = Callable[[Image], Iterator[Broken]]
DESCRIPTOR_GROUPS: tuple[Group, ...] = (bad_lists, bad_jobs, bad_identify, bad_limits, bad_segments)
