# SPDX-License-Identifier: Apache-2.0
"""The message encoding: numbers and fields there and back, and what is damaged refused by offset."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nearkv_emulation.xrt_device.wire import Fields, ProtocolError, get_number, pack, put_number

_VALUES = st.one_of(st.integers(0, (1 << 64) - 1), st.binary(max_size=300))


@given(st.integers(0, (1 << 64) - 1))
def test_numbers_come_back(value: int) -> None:
    data = put_number(value)
    assert get_number(memoryview(data), 0) == (value, len(data))


@given(st.lists(st.tuples(st.integers(1, 2000), _VALUES), max_size=20))
def test_fields_come_back(fields: list[tuple[int, int | bytes]]) -> None:
    parsed = Fields.parse(pack(fields))
    for number in {number for number, _ in fields}:
        wanted = [value for other, value in fields if other == number]
        assert [v if isinstance(v, int) else bytes(v) for v in parsed.all(number)] == wanted


@given(st.binary(max_size=60))
def test_any_bytes_are_fields_or_refused(data: bytes) -> None:
    try:
        Fields.parse(data)
    except ProtocolError:
        return


def test_known_bytes() -> None:
    """As any implementation of the encoding writes them."""
    assert pack([(1, 300), (2, b"ab")]).hex() == "08ac02" + "12026162"
    fixed = Fields.parse(bytes.fromhex("09" + "0100000000000000" + "15" + "02000000"))
    assert (fixed.number(1), fixed.number(2)) == (1, 2)


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        ("08", "ends at 1 inside a number that begins at 1"),
        ("08" + "ff" * 10, "the number at 1 does not fit 64 bits"),
        ("08" + "ff" * 9 + "02", "the number at 1 does not fit 64 bits"),
        ("1203ab", "field 2 at 0 has 3 bytes, 1 are left"),
        ("0900", "field 1 at 0 has 8 bytes, 1 are left"),
        ("0b", "field 1 at 0 has type 3"),
        ("0001", "field 0 at 0"),
    ],
)
def test_damage_is_named(data: str, sentence: str) -> None:
    with pytest.raises(ProtocolError, match=sentence):
        Fields.parse(bytes.fromhex(data))


def test_missing_and_ill_typed_fields_are_named() -> None:
    fields = Fields.parse(pack([(1, 5), (2, b"abc")]))
    with pytest.raises(ProtocolError, match=r"field 3 is missing; the message has \[1, 2\]"):
        fields.number(3)
    with pytest.raises(ProtocolError, match="field 2 holds 3 bytes; a number is expected"):
        fields.number(2)
    with pytest.raises(ProtocolError, match="field 1 is the number 5; bytes are expected"):
        fields.data(1)
    assert fields.number(3, 7) == 7


@pytest.mark.parametrize("value", [-1, 1 << 64])
def test_numbers_outside_64_bits_are_refused(value: int) -> None:
    with pytest.raises(ValueError, match="unsigned 64-bit"):
        put_number(value)
