# SPDX-License-Identifier: Apache-2.0
"""Files to import: whatever is in them, they are read as a session or refused by their name."""

from __future__ import annotations

import json
import struct
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nearkv.errors import UserError
from nearkv.layout import ModelLayout
from nearkv.models.tensors import save_tensors
from nearkv.session import frames
from nearkv.session.record_payloads import encode
from nearkv.session.records import Header, Prompt, Record, Sampling, Token, Turn, TurnEnd
from nearkv.session.transfer import SessionFile
from nearkv_driver.checksum import crc32c

LAYOUT = ModelLayout("m", 1, 2, 1, 64)
HEADER = Header("trip", "default", "0123456789abcdef", "m", "2026-01-02T03:04:05Z")
RECORDS: tuple[Record, ...] = (HEADER, Turn(Sampling(), 9), Prompt((1, 2, 3)), Token(4), Token(5), TurnEnd("length"))
FACTS = {
    "format": "nearkv-session",
    "version": "2",
    "tokens": "4",
    "model": "m",
    "layers": "1",
    "kv_heads": "1",
    "head_size": "64",
    "dtype": "float16",
}


def journal(records: tuple[Record, ...] = RECORDS) -> np.ndarray:
    packed = []
    for serial, record in enumerate(records):
        kind, payload = encode(record)
        packed.append(frames.pack(kind, serial, serial, payload))
    return np.frombuffer(b"".join(packed), np.uint8)


def rows(tokens: int = 4, dtype: type = np.float16) -> np.ndarray:
    return np.ones((2, 1, tokens, 64), dtype)


def written(path: Path, facts: dict[str, str] | None = None, **tensors: np.ndarray) -> Path:
    named = {"journal": journal(), "kv.0": rows(), **tensors}
    seals = {f"crc32c.{name}": f"{crc32c(array):08x}" for name, array in named.items()}
    save_tensors(named, path, seals | (FACTS if facts is None else facts))
    return path


def read(path: Path) -> list[object]:
    """As an import does, without a store; what was read."""
    with SessionFile(path) as file:
        file.check(LAYOUT)
        found = [file.rows(layer, LAYOUT) for layer in range(LAYOUT.layers if file.tokens else 0)]
        assert all(array.shape == (2, 1, file.tokens, 64) for array in found)
        return [*file.records, *(array.tobytes() for array in found)]


WHOLE = [*RECORDS, rows().tobytes()]


def test_a_good_file_is_read(tmp_path: Path) -> None:
    assert read(written(tmp_path / "a")) == WHOLE


def test_a_file_of_the_first_version_is_read_without_checksums(tmp_path: Path) -> None:
    save_tensors({"journal": journal(), "kv.0": rows()}, tmp_path / "a", FACTS | {"version": "1"})
    assert read(tmp_path / "a") == WHOLE


@pytest.mark.parametrize("name", ["journal", "kv.0"])
def test_an_array_that_is_not_what_was_written_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(UserError, match=f"{name} differs from its checksum$"):
        read(written(tmp_path / "a", FACTS | {f"crc32c.{name}": "00000000"}))
    save_tensors({"journal": journal(), "kv.0": rows()}, tmp_path / "b", FACTS)
    with pytest.raises(UserError, match="journal differs from its checksum, which is missing"):
        read(tmp_path / "b")


def test_a_type_that_numpy_lacks_is_refused(tmp_path: Path) -> None:
    data = written(tmp_path / "a").read_bytes()
    assert data.count(b'"F16"') == 1
    nbytes = struct.unpack_from("<Q", data)[0]
    (tmp_path / "a").write_bytes(struct.pack("<Q", nbytes + 1) + data[8:].replace(b'"F16"', b'"BF16"'))
    with pytest.raises(UserError, match=r"kv\.0 cannot be read: .*bfloat16"):
        read(tmp_path / "a")


@pytest.mark.parametrize(
    ("facts", "text"),
    [
        ({"format": "x"}, "not an exported session"),
        ({"version": "3"}, "version '3'; this program reads '2' and '1'"),
        ({"tokens": "-1"}, "tokens is '-1'"),
        ({"tokens": "5"}, "5 tokens, the journal accounts for 4"),
        ({"tokens": "9" * 30}, "tokens is"),
        ({"layers": "2"}, "'kv.1' is missing"),
        ({"layers": "0"}, "'kv.0' is not part"),
        ({"model": "other"}, "model is 'other', the store has 'm'"),
        ({"head_size": "32"}, "head_size is '32'"),
    ],
)
def test_facts_that_do_not_fit_are_refused(tmp_path: Path, facts: dict[str, str], text: str) -> None:
    with pytest.raises(UserError, match=text):
        read(written(tmp_path / "a", FACTS | facts))


@pytest.mark.parametrize(
    ("tensors", "text"),
    [
        ({"kv.0": rows(3)}, "float16 .* is expected"),
        ({"kv.0": rows(dtype=np.float32)}, "float16 .* is expected"),
        ({"kv.0": rows() * np.float16("nan")}, "Inf or NaN"),
        ({"kv.7": rows()}, "'kv.7' is not part"),
        ({"journal": journal().astype(np.uint16)}, "bytes are expected"),
        ({"journal": journal()[:40]}, "damaged|header|K and V of"),
        ({"journal": journal((HEADER, Token(1)))}, "before any prompt"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(tmp_path: Path, tensors: dict[str, np.ndarray], text: str) -> None:
    with pytest.raises(UserError, match=text):
        read(written(tmp_path / "a", **tensors))


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return written(tmp_path_factory.mktemp("good") / "a").read_bytes()


@given(st.data())
def test_any_damage_is_refused_or_harmless(
    tmp_path_factory: pytest.TempPathFactory, good: bytes, data: st.DataObject
) -> None:
    path = tmp_path_factory.getbasetemp() / "damaged"
    header = 8 + struct.unpack_from("<Q", good)[0]
    at = data.draw(st.integers(0, header + 200) | st.integers(0, len(good) - 1))
    end = data.draw(st.integers(at, min(len(good), at + 8)))
    path.write_bytes(good[:at] + data.draw(st.binary(max_size=8)) + good[end:])
    with suppress(UserError):
        assert read(path) == WHOLE


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*FACTS, "x"]), inner, max_size=3),
        max_leaves=8,
    )
)
def test_any_description_is_refused_or_read(
    tmp_path_factory: pytest.TempPathFactory, good: bytes, value: object
) -> None:
    path = tmp_path_factory.getbasetemp() / "described"
    nbytes = struct.unpack_from("<Q", good)[0]
    described = json.loads(good[8 : 8 + nbytes])
    described["__metadata__"] = value
    text = json.dumps(described).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + good[8 + nbytes :])
    with suppress(UserError):
        read(path)
