# SPDX-License-Identifier: Apache-2.0
"""Frames of a journal: round trip, what a crash leaves, damage."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nearkv.session import frames
from nearkv.session.frames import HEAD_NBYTES, PAYLOAD_NBYTES_MAX, pack, scan

_PAYLOADS = st.lists(st.tuples(st.integers(0, 255), st.binary(max_size=40)), max_size=8)


def _journal(payloads: list[tuple[int, bytes]], durable_lag: int = 1) -> bytes:
    return b"".join(
        pack(kind, serial, max(0, serial - durable_lag + 1), payload) for serial, (kind, payload) in enumerate(payloads)
    )


@given(_PAYLOADS)
def test_round_trip(payloads: list[tuple[int, bytes]]) -> None:
    found = scan(data := _journal(payloads))
    assert [(f.kind, f.payload) for f in found.frames] == payloads
    assert (found.rest_nbytes, found.damaged, found.end) == (0, False, len(data))


@given(_PAYLOADS, st.data())
def test_a_cut_journal_gives_the_whole_frames_before_the_cut(
    payloads: list[tuple[int, bytes]], data: st.DataObject
) -> None:
    journal = _journal(payloads)
    cut = data.draw(st.integers(0, len(journal)))
    found = scan(journal[:cut])
    whole = [f for f in scan(journal).frames if f.end <= cut]
    assert found.frames == tuple(whole)
    assert not found.damaged
    assert found.end + found.rest_nbytes == cut


def test_zeros_behind_the_last_frame_are_what_a_crash_leaves() -> None:
    found = scan(_journal([(1, b"a"), (2, b"b")]) + bytes(4096))
    assert len(found.frames) == 2
    assert (found.rest_nbytes, found.damaged) == (4096, False)


@given(st.integers(0, 7), st.integers(0, 2**31))
def test_any_bit_flip_is_seen(bit: int, where: int) -> None:
    journal = bytearray(_journal([(i, bytes([i]) * i) for i in range(6)]))
    journal[where % len(journal)] ^= 1 << bit
    found = scan(bytes(journal))
    bad = next(
        i
        for i, f in enumerate(scan(_journal([(i, bytes([i]) * i) for i in range(6)])).frames)
        if f.end > where % len(journal)
    )
    assert len(found.frames) == bad
    # With a sync after each frame, the one behind it says that it was stored; only the last one has nobody behind it.
    assert found.damaged == (bad < 5)


def test_a_hole_among_unsynced_frames_is_no_damage() -> None:
    whole = [pack(1, i, min(i, 2), b"token") for i in range(6)]  # two were durable, four were on their way
    found = scan(b"".join(whole[:3]) + bytes(len(whole[3])) + b"".join(whole[4:]))
    assert len(found.frames) == 3
    assert not found.damaged
    found = scan(whole[0] + bytes(len(whole[1])) + b"".join(whole[2:]))
    assert len(found.frames) == 1
    assert found.damaged


def test_a_frame_in_another_place_does_not_fit() -> None:
    first, second = pack(1, 0, 0, b"x"), pack(1, 1, 1, b"y")
    assert scan(second).frames == ()
    assert len(scan(first + first + second).frames) == 1


@given(st.binary(max_size=300))
def test_anything_can_be_scanned(data: bytes) -> None:
    found = scan(data)
    assert found.end + found.rest_nbytes == len(data)


def test_heads_made_to_overlap_are_damage_in_bounded_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stranger's file: each head claims all that follows as its payload."""
    count, first = 2000, pack(1, 0, 0, b"x")
    claims = [struct.pack("<HBBIIII", 0x6E4B, 1, 0, 9, 9, (count - 1 - i) * HEAD_NBYTES, 0) for i in range(count)]
    checksum, seen = frames._checksum, 0

    def counted(head: bytes, payload: bytes) -> int:
        nonlocal seen
        seen += len(payload)
        return checksum(head, payload)

    monkeypatch.setattr(frames, "_checksum", counted)
    monkeypatch.setattr(frames, "_SEARCH_NBYTES_MAX", 1 << 20)
    assert scan(first + b"".join(claims)).damaged
    assert seen <= (1 << 20) + count * HEAD_NBYTES
    assert not scan(first + claims[-1] * 10).damaged  # none of them fits, and the limit is far


def test_a_payload_that_no_reader_takes_is_refused() -> None:
    with pytest.raises(ValueError, match=str(PAYLOAD_NBYTES_MAX)):
        pack(1, 0, 0, bytes(PAYLOAD_NBYTES_MAX + 1))
    assert len(pack(1, 0, 0, b"")) == HEAD_NBYTES
