# SPDX-License-Identifier: Apache-2.0
"""The GGUF reader: fields, every number format against a plain reimplementation, and every damage by name."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nearkv.models.gguf import GGUF

from tests.support.gguf_files import ARRAY, f32, gguf_bytes, llama_file, text


def opened(tmp_path: Path, *parts: Any, **options: Any) -> GGUF:
    path = tmp_path / "file.gguf"
    path.write_bytes(gguf_bytes(*parts, **options))
    return GGUF(path)


def _half(raw: bytes) -> np.float32:
    return np.float32(struct.unpack("<e", raw)[0])


def plain_decode(kind: int, raw: bytes) -> list[np.float32]:
    """Each format from its description, one element at a time."""
    if kind == 0:
        return [np.float32(x) for (x,) in struct.iter_unpack("<f", raw)]
    if kind == 1:
        return [_half(raw[i : i + 2]) for i in range(0, len(raw), 2)]
    if kind == 30:
        return [np.float32(struct.unpack("<f", b"\0\0" + raw[i : i + 2])[0]) for i in range(0, len(raw), 2)]
    size = {2: 18, 3: 20, 8: 34}[kind]
    values: list[np.float32] = []
    for at in range(0, len(raw), size):
        block = raw[at : at + size]
        scale = _half(block[:2])
        if kind == 8:
            values += [np.float32(x) * scale for x in struct.unpack("<32b", block[2:])]
            continue
        head = 4 if kind == 3 else 2
        nibbles = [byte & 15 for byte in block[head:]] + [byte >> 4 for byte in block[head:]]
        if kind == 2:
            values += [np.float32(x - 8) * scale for x in nibbles]
        else:
            values += [np.float32(x) * scale + _half(block[2:4]) for x in nibbles]
    return values


@pytest.mark.parametrize(("kind", "nbytes"), [(0, 4 * 64), (1, 2 * 64), (30, 2 * 64), (2, 36), (3, 40), (8, 68)])
def test_formats_equal_a_plain_reimplementation(tmp_path: Path, kind: int, nbytes: int) -> None:
    rng = np.random.default_rng(kind)
    raw = bytearray(rng.integers(0, 256, 3 * nbytes, dtype=np.uint8).tobytes())
    if kind == 1:  # NaN has no single form
        bits = np.frombuffer(raw, "<u2") & np.where(np.frombuffer(raw, "<u2") & 0x7C00 == 0x7C00, 0x83FF, 0xFFFF)
        raw = bytearray(bits.astype("<u2").tobytes())
    if kind in (2, 3, 8):  # scales that are finite and of ordinary size
        for at in range(0, len(raw), nbytes // 2):
            raw[at : at + 2] = struct.pack("<e", rng.standard_normal())
            if kind == 3:
                raw[at + 2 : at + 4] = struct.pack("<e", rng.standard_normal())
    with opened(tmp_path, {}, {"other": f32((3,), rng), "w": ((3, 64), kind, bytes(raw))}) as gguf:
        got = gguf.array("w")
    assert (got.shape, got.dtype) == ((3, 64), np.float32)
    assert got.flags.owndata or got.base is not None
    assert got.flags.writeable
    expected = np.array(plain_decode(kind, bytes(raw)), np.float32).reshape(3, 64)
    np.testing.assert_array_equal(got.view(np.uint32), expected.view(np.uint32))


def test_fields(tmp_path: Path) -> None:
    fields = {"a": 7, "b": 0.5, "c": "näme", "d": ["x", "", "zz"], "e": np.array([3, -1]), "f": True}
    with opened(tmp_path, fields, {}) as gguf:
        assert (gguf.number("a"), gguf.real("b"), gguf.real("a"), gguf.string("c")) == (7, 0.5, 7.0, "näme")
        assert gguf.strings("d") == ["x", "", "zz"]
        assert list(gguf.fields["e"]) == [3, -1]  # type: ignore[call-overload]
        assert (gguf.number("none", 4), gguf.string("none", "s")) == (4, "s")
        for read, key in ((gguf.number, "c"), (gguf.number, "f"), (gguf.real, "c"), (gguf.string, "a")):
            with pytest.raises(ValueError, match=rf"file.gguf: field '{key}' is"):
                read(key)
        with pytest.raises(ValueError, match="'none' is absent, not an integer"):
            gguf.number("none")
        with pytest.raises(ValueError, match=r"'e' is array.*, not a list of texts"):
            gguf.strings("e")
        with pytest.raises(ValueError, match="no tensor 'w'"):
            gguf.array("w")


def test_alignment_and_version_2(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    tensors = {"a": f32((3,), rng), "b": f32((5, 2), rng)}
    with opened(tmp_path, {"general.alignment": 64}, tensors, align=64, version=2) as gguf:
        for name, (shape, _, raw) in tensors.items():
            np.testing.assert_array_equal(gguf.array(name), np.frombuffer(raw, "<f4").reshape(shape))


DAMAGE: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "the file is empty"),
    "magic": (b"PK\x03\x04" + bytes(60), r"not a GGUF file \(it begins with b'PK"),
    "short": (b"GGUF\x03", "version needs 4 bytes at offset 4, the file has 1 left"),
    "version": (gguf_bytes({}, {}, version=1), "GGUF version 1; versions 2 and 3 can be read"),
    "byte order": (b"GGUF" + struct.pack(">I", 3) + bytes(60), "GGUF version 50331648"),
    "tensors": (gguf_bytes({}, {}, n_tensors=2**60), f"number of tensors is {2**60}, but only"),
    "fields": (gguf_bytes({}, {}, n_fields=2**40), f"number of fields is {2**40}, but only"),
    "cut": (gguf_bytes({"a": "x" * 40}, {}, n_fields=2)[:85], "length of name of field 1 needs 8 bytes"),
    "string": (
        gguf_bytes({}, {}, n_fields=1)[:24] + struct.pack("<Q", 2**50) + bytes(9),
        "length of name of field 0 is",
    ),
    "text": (gguf_bytes({}, {}, n_fields=1)[:24] + text(b"\xff\xfe") + bytes(9), "name of field 0 is not UTF-8"),
    "field type": (
        gguf_bytes({}, {}, n_fields=1)[:24] + text("a") + struct.pack("<IQ", 77, 0),
        "field 'a' has the unknown type 77",
    ),
    "array": (
        gguf_bytes({}, {}, n_fields=1)[:24] + text("a") + struct.pack("<IIQ", ARRAY, 6, 2**61),
        f"length of field 'a' is {2**61}",
    ),
    "nested": (
        gguf_bytes({}, {}, n_fields=1)[:24] + text("a") + struct.pack("<I", ARRAY) + struct.pack("<IQ", ARRAY, 1) * 9,
        "arrays nested deeper than 4",
    ),
    "twice": (gguf_bytes({}, {}, n_fields=2)[:24] + 2 * (text("a") + struct.pack("<II", 4, 1)), "'a' occurs twice"),
    "alignment": (gguf_bytes({"general.alignment": 48}, {}), "general.alignment is 48, not a power of two"),
    "no alignment": (gguf_bytes({"general.alignment": 0}, {}), "general.alignment is 0"),
    "tensor type": (
        gguf_bytes({}, {"w": ((32,), 12, bytes(64))}),
        r"'w' has type 12, which is not supported.*Q4_1 \(3\)",
    ),
    "dimensions": (gguf_bytes({}, {"w": ((1,) * 5, 0, bytes(4))}), "'w' has 5 dimensions; 1 to 4"),
    "row": (gguf_bytes({}, {"w": ((2, 16), 8, bytes(34))}), "rows of 16, not a multiple of Q8_0's 32"),
    "no elements": (gguf_bytes({}, {"w": ((0, 32), 0, b"")}), r"'w' of shape \(0, 32\)"),
    "truncated": (gguf_bytes({}, {"w": ((64,), 0, bytes(256))})[:-1], r"'w' of shape \(64,\) needs bytes"),
    "absurd shape": (gguf_bytes({}, {"w": ((2**40, 2**40), 0, bytes(64))}), "'w' of shape"),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_damage_is_a_value_error_that_names_the_file(tmp_path: Path, name: str) -> None:
    data, what = DAMAGE[name]
    path = tmp_path / "damaged.gguf"
    path.write_bytes(data)
    with pytest.raises(ValueError, match=rf"damaged\.gguf: .*{what}"):
        GGUF(path)


def test_a_header_of_a_sparse_file_is_not_copied(tmp_path: Path) -> None:
    """An array of 2^30 bytes, all of which the file has."""
    path = tmp_path / "sparse.gguf"
    with path.open("wb") as file:
        file.write(gguf_bytes({}, {}, n_fields=1)[:24] + text("a") + struct.pack("<IIQ", ARRAY, 0, 2**30))
        file.truncate(2**31)
    with pytest.raises(
        ValueError, match=rf"sparse\.gguf: field 'a' ends at byte \d+; a header has at most {1 << 28} b"
    ):
        GGUF(path)


_WHOLE = gguf_bytes(*llama_file(np.random.default_rng(0)))


@settings(max_examples=150, deadline=None, derandomize=True)
@given(data=st.data())
def test_any_cut_or_changed_byte_is_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    raw = bytearray(_WHOLE)
    if data.draw(st.booleans()):
        del raw[data.draw(st.integers(0, len(raw) - 1)) :]
    else:
        raw[data.draw(st.integers(0, 20_000))] ^= data.draw(st.integers(1, 255))
    path = tmp_path_factory.mktemp("gguf") / "damaged.gguf"
    path.write_bytes(raw)
    refusal = f"{path}: "
    try:
        with GGUF(path) as gguf:
            for name in gguf.tensors:
                gguf.array(name)
    except ValueError as error:
        refusal = str(error)
    assert refusal.startswith(f"{path}: ")
