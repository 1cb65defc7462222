# SPDX-License-Identifier: Apache-2.0
"""Images whose descriptors are sound and whose data is not: pages, elements, states, memory that does not answer.

See `mutations` for the image that they start from. `beats` is worked out by hand from the walk: rows of 192 bytes are
three words, and the visits are tokens 112 to 127, 128 to 146, 16 to 35.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from nearkv_driver import regmap as rm

from tests.support.jobs import Image, padded, poke, scale_fields
from tests.support.mutations import BROKEN, HEAD_SIZE, NA, Broken, job_address, poke_job, poke_segment, segment_fields

ROW = 2 * 96
INF, NAN = b"\x00\x7c", b"\x01\xfe"
# Words read of K (or of V) in each visit: 3968 bytes before the first row and 16 rows; the rest of three pages and
# one page of the second segment; 17 rows, for the new rows come from another master.
VISIT = (110, 146, 51)


def flip(image: Image, address: int) -> Image:
    return poke(image, address, bytes([int(image.memory[image.at(address)]) ^ 0x10]))


def bad_pages(image: Image) -> Iterator[Broken]:
    """One flipped bit in a page: in a row, in what surrounds the rows, in the checksum."""
    for kind in (rm.Kind.K, rm.Kind.V):
        name = kind.name.lower()
        first, second = (segment_fields(image, s)[f"{name}_addr"] for s in (0, 1))
        row_visit_2 = first + 20 * ROW

        def case(what: str, broken: Image, segment: int, page: int, visit: int, kind: rm.Kind = kind) -> Broken:
            beats = 2 * sum(VISIT[:visit]) + (1 + kind) * VISIT[visit]
            expected = {"segment": segment, "page": page, "kind": kind, "beats": beats}
            return Broken(f"crc-{kind.name.lower()}-{what}", broken, rm.Status.CRC_MISMATCH, expected)

        yield case("first-row", flip(image, first), 0, 0, 0)
        yield case("before-the-rows", flip(image, first - 3968), 0, 0, 0)
        # A row of the first visit in a page that the second completes.
        yield case("straddling-page", flip(image, first + 10 * ROW), 0, 1, 1)
        yield case("second-visit", flip(image, row_visit_2), 0, 1, 1)
        yield case("after-the-rows", flip(image, first - 3968 + 3 * rm.PAGE_BYTES - 1), 0, 2, 1)
        yield case("second-segment", flip(image, second), 1, 0, 1)
        yield case("first-of-two", flip(flip(image, second), row_visit_2), 0, 1, 1)
        checksum = segment_fields(image, 0)["crc_addr"] + rm.PAGE_CRC.nbytes + 4 * kind
        yield case("checksum", flip(image, checksum), 0, 1, 1)
        # The checksum is judged before the elements are.
        yield case("before-nonfinite", poke(image, row_visit_2, INF), 0, 1, 1)
    k, v = (segment_fields(image, 0)[name] for name in ("k_addr", "v_addr"))
    expected = {"segment": 0, "page": 0, "kind": rm.Kind.K, "beats": VISIT[0]}
    yield Broken("crc-k-before-v", flip(flip(image, v), k), rm.Status.CRC_MISMATCH, expected)


def bad_elements(image: Image) -> Iterator[Broken]:
    """Inf and NaN in K, V and new rows, seen or not; a segment without checksums, so that they are reached."""
    unchecked = poke_segment(poke_segment(image, 0, crc_addr=0), 1, crc_addr=0)
    fields = [segment_fields(unchecked, s) for s in range(3)]
    f = image.placed[BROKEN]
    new = {"k_addr": f["new_k_addr"], "v_addr": f["new_v_addr"], "first_position": f["new_first"]}
    # Without whole pages: 16 rows, 14 and 5, 17.
    words = (48, 57, 51)
    for kind in (rm.Kind.K, rm.Kind.V):
        name = f"{kind.name.lower()}_addr"
        for what, segment, token, element, bits, visit in (
            ("first", 0, 0, 0, INF, 0),
            ("last-element", 0, 15, HEAD_SIZE - 1, NAN, 0),
            ("second-visit", 0, 16, 5, INF, 1),
            ("second-segment", 1, 4, 7, b"\0\xfc", 1),
            ("unseen", 2, 0, 3, NAN, 2),
            ("new-row", 3, 2, 79, INF, 2),
        ):
            at = [*fields, new][segment]
            broken = poke(unchecked, at[name] + token * ROW + 2 * element, bits)
            beats = 2 * sum(words[:visit]) + (1 + kind) * words[visit]
            expected = {"segment": segment, "kind": kind, "position": at["first_position"] + token, "beats": beats}
            yield Broken(f"nonfinite-{kind.name.lower()}-{what}", broken, rm.Status.NONFINITE_KV, expected)
    two = poke(poke(unchecked, fields[0]["k_addr"] + 9 * ROW, INF), fields[0]["k_addr"] + 4 * ROW + 10, NAN)
    expected = {"segment": 0, "kind": rm.Kind.K, "position": 116, "beats": words[0]}
    yield Broken("nonfinite-k-first-of-two", two, rm.Status.NONFINITE_KV, expected)


def bad_q(image: Image) -> Iterator[Broken]:
    q_addr = image.placed[BROKEN]["q_addr"]
    for name, row, element, value in (("inf", 0, 0, np.inf), ("nan", 3, 79, np.nan), ("minus-inf", 1, 40, -np.inf)):
        address = q_addr + (row * 96 + element) * 4
        broken = poke(image, address, np.float32(value).tobytes())
        yield Broken(
            f"nonfinite-q-{name}", broken, rm.Status.NONFINITE_Q, {"kind": rm.Kind.Q, "position": row, "beats": 0}
        )


def bad_states(image: Image) -> Iterator[Broken]:
    """T out of range, a bin beyond its register, an empty row that is not empty."""
    start = image.placed[BROKEN]["state_in"]
    last = start + 4 * 3 * padded(HEAD_SIZE) * 8

    def case(name: str, row: int, address: int, value: int) -> Broken:
        broken = poke(image, address, np.int64(value).tobytes())
        expected = {"kind": rm.Kind.STATE, "position": row, "beats": 0}
        return Broken(f"state-{name}", broken, rm.Status.BAD_STATE, expected)

    for t in (rm.STATE_T_LIMIT, -rm.STATE_T_LIMIT, rm.EMPTY_T - 1, 2**31 - 1, 2**32, 5 - 2**40):
        yield case(f"t-{t}", 2, last + 2 * 32 + 24, t)
    yield case("empty-with-l", 0, last + 8, 1)
    yield case("empty-with-o", 0, start + 8 * 79, -1)
    yield case("full-with-empty-t", 1, last + 32 + 24, rm.EMPTY_T)
    yield case("o-too-high", 3, start + 8 * (3 * 3 * 96 + 2 * 96 + 79), 2**49)
    yield case("o-too-low", 1, start + 8 * 3 * 96, -(2**49) - 1)
    yield case("l-too-high", 2, last + 2 * 32 + 16, 2**49)
    yield case("before-q", 2, last + 2 * 32 + 24, rm.STATE_T_LIMIT)


def unanswered(image: Image) -> Iterator[Broken]:
    """Memory that answers with DECERR: the first word that fails is named, with its master."""
    f = image.placed[BROKEN]
    end = image.at(image.base) + len(image.memory)

    def case(name: str, master: int, address: int, job: int = BROKEN, beats: int = 0, nbytes: int = 64) -> Broken:
        start = image.at(address - address % 64)
        broken = replace(image, holes=((master, start, min(end, start + nbytes)),))
        code = rm.Status.AXI_WRITE if master == rm.MASTER_OUT else rm.Status.AXI_READ
        expected = {"detail": master, "address": address - address % 64, "beats": beats}
        return Broken(f"axi-{name}", broken, code, expected, job)

    yield case("list", rm.MASTER_CTL, image.ctl, NA)
    yield case("list-second-word", rm.MASTER_CTL, image.ctl + 64, NA)
    yield case("job", rm.MASTER_CTL, job_address(image, 128))
    for name in ("q_addr", "limits_addr", "segments_addr", "state_in"):
        yield case(name, rm.MASTER_CTL, f[name])
    both = 2 * (VISIT[0] + VISIT[1])
    yield case("new-k", rm.MASTER_CTL, f["new_k_addr"] + 128, beats=both + VISIT[2])
    yield case("new-v", rm.MASTER_CTL, f["new_v_addr"], beats=both + 2 * VISIT[2])
    first, third = segment_fields(image, 0), segment_fields(image, 2)
    page = first["k_addr"] - 3968
    yield case("k-before-the-rows", rm.MASTER_KV, page + 64, beats=1, nbytes=4096)
    yield case("k", rm.MASTER_KV, first["k_addr"] + 3 * ROW, beats=62 + 9)
    yield case("v", rm.MASTER_KV, first["v_addr"], beats=VISIT[0] + 62)
    yield case("v-unchecked", rm.MASTER_KV, third["v_addr"] + 16 * ROW + 128, beats=both + 51 + 50)
    total = both + 2 * VISIT[2]
    for name in ("tail_k_addr", "tail_v_addr", "state_out", "out_addr"):
        yield case(name, rm.MASTER_OUT, f[name], beats=total)
    yield case("identity", rm.MASTER_OUT, image.placed[2]["out_addr"], job=2)


def saturated(image: Image) -> Image:
    """Not broken: scores of visible tokens leave 48 bits, and the flag of an accepted job says so."""
    mantissa, _ = scale_fields(1.0)
    return poke_job(image, scale_mantissa=mantissa, scale_exponent=60)


DATA_GROUPS = (bad_pages, bad_elements, bad_q, bad_states, unanswered)
