# SPDX-License-Identifier: Apache-2.0
"""Read a GGUF file: its fields, and its tensors as FP32 arrays. Knows nothing of model architectures or tokenizers.

The file is mapped, so opening costs only the header; a tensor is decoded when asked for. Damage of any kind is a
ValueError that names the file and what is wrong.
"""

from __future__ import annotations

import mmap
import os
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

import numpy as np
from numpy.typing import NDArray

from nearkv.models.gguf_blocks import BLOCKS, decode

# field types of the format that hold one number: code -> struct format, NumPy type
_NUMBERS = {
    0: ("<B", "u1"),
    1: ("<b", "i1"),
    2: ("<H", "<u2"),
    3: ("<h", "<i2"),
    4: ("<I", "<u4"),
    5: ("<i", "<i4"),
    6: ("<f", "<f4"),
    7: ("<?", "?"),
    10: ("<Q", "<u8"),
    11: ("<q", "<i8"),
    12: ("<d", "<f8"),
}
_STRING, _ARRAY = 8, 9
_VERSIONS = (2, 3)
_DIMS_MAX = 4
_NESTING_MAX = 4
_HEADER_NBYTES_MAX = 1 << 28  # fields and table of tensors; with a vocabulary of 256K tokens they have about 20 MB


@dataclass(frozen=True)
class TensorInfo:
    """Where a tensor lies: `shape` slowest axis first, `kind` a key of BLOCKS, `start` and `nbytes` in the file."""

    name: str
    shape: tuple[int, ...]
    kind: int
    start: int
    nbytes: int


class _Cursor:
    """Reads the header from front to back; every read is checked against the end of the file and a limit, since a
    sparse file costs nobody anything and its copy does."""

    def __init__(self, path: Path, data: mmap.mmap) -> None:
        self.path, self.data, self.position = path, data, 0

    def fail(self, what: str) -> ValueError:
        return ValueError(f"{self.path}: {what}")

    def take(self, nbytes: int, what: str) -> bytes:
        left = len(self.data) - self.position
        if nbytes > left:
            raise self.fail(f"{what} needs {nbytes} bytes at offset {self.position}, the file has {left} left")
        if self.position + nbytes > _HEADER_NBYTES_MAX:
            raise self.fail(
                f"{what} ends at byte {self.position + nbytes}; a header has at most {_HEADER_NBYTES_MAX} bytes"
            )
        self.position += nbytes
        return self.data[self.position - nbytes : self.position]

    def number(self, fmt: str, what: str) -> int:
        value: int = struct.unpack(fmt, self.take(struct.calcsize(fmt), what))[0]
        return value

    def count(self, what: str, smallest_nbytes: int) -> int:
        """A 64-bit count of things that take at least `smallest_nbytes` each: more than the file can hold is damage."""
        n = self.number("<Q", what)
        left = len(self.data) - self.position
        if n * smallest_nbytes > left:
            raise self.fail(f"{what} is {n}, but only {left} bytes follow")
        return n

    def text(self, what: str) -> str:
        raw = self.take(self.count(f"length of {what}", 1), what)
        try:
            return raw.decode("utf-8")
        except UnicodeDecodeError as error:
            raise self.fail(f"{what} is not UTF-8 ({error.reason} at byte {error.start})") from None

    def value(self, kind: int, what: str, depth: int = 0) -> object:
        if kind == _STRING:
            return self.text(what)
        if kind == _ARRAY:
            if depth == _NESTING_MAX:
                raise self.fail(f"{what}: arrays nested deeper than {_NESTING_MAX}")
            return self._array(what, depth)
        if kind not in _NUMBERS:
            raise self.fail(f"{what} has the unknown type {kind}")
        return self.number(_NUMBERS[kind][0], what)

    def _array(self, what: str, depth: int) -> object:
        item = self.number("<I", f"item type of {what}")
        if item in _NUMBERS:
            dtype = np.dtype(_NUMBERS[item][1])
            n = self.count(f"length of {what}", dtype.itemsize)
            return np.frombuffer(self.take(n * dtype.itemsize, what), dtype)
        n = self.count(f"length of {what}", 8)
        return [self.value(item, f"{what}[{i}]", depth + 1) for i in range(n)]


class GGUF:
    """One open file; a context manager. `fields` and `tensors` are read when it opens, 256 MiB of header at most.

    ValueError names the file, the place and what is wrong there; OSError where it cannot be opened.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        with self.path.open("rb") as file:
            if os.fstat(file.fileno()).st_size == 0:
                raise ValueError(f"{self.path}: the file is empty")
            self._data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        try:
            self._read_header()
        except BaseException:
            self.close()
            raise

    def _read_header(self) -> None:
        at = _Cursor(self.path, self._data)
        if self._data[:4] != b"GGUF":
            raise at.fail(f"not a GGUF file (it begins with {self._data[:4]!r}, not b'GGUF')")
        at.position = 4
        version = at.number("<I", "version")
        if version not in _VERSIONS:
            raise at.fail(f"GGUF version {version}; versions {_VERSIONS[0]} and {_VERSIONS[1]} can be read")
        n_tensors = at.count("number of tensors", 24)
        n_fields = at.count("number of fields", 13)
        fields: dict[str, object] = {}
        for i in range(n_fields):
            name = at.text(f"name of field {i}")
            if name in fields:
                raise at.fail(f"field {name!r} occurs twice")
            fields[name] = at.value(at.number("<I", f"type of field {name!r}"), f"field {name!r}")
        self.fields: Mapping[str, object] = fields
        self.tensors: Mapping[str, TensorInfo] = self._read_table(at, n_tensors)

    def _read_table(self, at: _Cursor, n_tensors: int) -> dict[str, TensorInfo]:
        entries = []
        for i in range(n_tensors):
            name = at.text(f"name of tensor {i}")
            n_dims = at.number("<I", f"dimensions of tensor {name!r}")
            if not 1 <= n_dims <= _DIMS_MAX:
                raise at.fail(f"tensor {name!r} has {n_dims} dimensions; 1 to {_DIMS_MAX} are possible")
            dims = tuple(at.number("<Q", f"shape of tensor {name!r}") for _ in range(n_dims))
            entries.append(
                (name, dims[::-1], at.number("<I", f"type of {name!r}"), at.number("<Q", f"offset of {name!r}"))
            )
        align = self.number("general.alignment", 32)
        if align < 1 or align & (align - 1):
            raise at.fail(f"general.alignment is {align}, not a power of two")
        base = -(-at.position // align) * align
        tensors: dict[str, TensorInfo] = {}
        for name, shape, kind, offset in entries:
            if name in tensors:
                raise at.fail(f"tensor {name!r} occurs twice")
            tensors[name] = self._tensor(at, name, shape, kind, base + offset)
        return tensors

    def _tensor(self, at: _Cursor, name: str, shape: tuple[int, ...], kind: int, start: int) -> TensorInfo:
        if kind not in BLOCKS:
            known = ", ".join(f"{b.name} ({code})" for code, b in BLOCKS.items())
            raise at.fail(f"tensor {name!r} has type {kind}, which is not supported; supported: {known}")
        block = BLOCKS[kind]
        if shape[-1] % block.elements:
            raise at.fail(f"tensor {name!r} has rows of {shape[-1]}, not a multiple of {block.name}'s {block.elements}")
        count = 1
        for dim in shape:
            count *= dim
        nbytes = count // block.elements * block.nbytes
        if count == 0 or start + nbytes > len(self._data):
            raise at.fail(
                f"tensor {name!r} of shape {shape} needs bytes {start} to {start + nbytes}, "
                f"the file has {len(self._data)}"
            )
        return TensorInfo(name, shape, kind, start, nbytes)

    def array(self, name: str) -> NDArray[np.float32]:
        """The tensor as a fresh FP32 array that owns its memory; the same bits for the same file, always."""
        if name not in self.tensors:
            raise ValueError(f"{self.path}: no tensor {name!r}")
        t = self.tensors[name]
        raw = np.frombuffer(self._data, np.uint8, t.nbytes, t.start)
        return decode(t.kind, raw).reshape(t.shape)

    def number(self, key: str, default: int | None = None) -> int:
        """An integer field; ValueError if it is absent (and no default given) or no integer."""
        value = self.fields.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int):
            raise ValueError(f"{self.path}: field {key!r} is {_show(value)}, not an integer")
        return value

    def real(self, key: str, default: float | None = None) -> float:
        """A number field as float."""
        value = self.fields.get(key, default)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise ValueError(f"{self.path}: field {key!r} is {_show(value)}, not a number")
        return float(value)

    def string(self, key: str, default: str | None = None) -> str:
        """A text field."""
        value = self.fields.get(key, default)
        if not isinstance(value, str):
            raise ValueError(f"{self.path}: field {key!r} is {_show(value)}, not a text")
        return value

    def strings(self, key: str) -> list[str]:
        """A field that is a list of texts."""
        value = self.fields.get(key)
        if not isinstance(value, list) or not all(isinstance(x, str) for x in value):
            raise ValueError(f"{self.path}: field {key!r} is {_show(value)}, not a list of texts")
        return value

    def close(self) -> None:
        """Drop the mapping; arrays already decoded stay valid."""
        self._data.close()

    def __enter__(self) -> GGUF:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _show(value: object) -> str:
    """A field's value for an error message: short, and 'absent' for None."""
    if value is None:
        return "absent"
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
