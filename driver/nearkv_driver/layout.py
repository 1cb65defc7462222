# SPDX-License-Identifier: Apache-2.0
"""Fixed binary layouts: pack and unpack the structures that `fpga/regmap.toml` names.

Knows nothing of what a field means; ranges that depend on meaning are checked in `encode`.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import cached_property

import numpy as np

_CODE = {"u32": "I", "i32": "i", "u64": "Q"}
_NUMPY = {"u32": "<u4", "i32": "<i4", "u64": "<u8"}
_RANGE = {"u32": (0, 2**32 - 1), "i32": (-(2**31), 2**31 - 1), "u64": (0, 2**64 - 1)}


@dataclass(frozen=True)
class Field:
    """One integer of a structure; `offset` in bytes, `type` one of u32, i32, u64."""

    name: str
    offset: int
    type: str


@dataclass(frozen=True)
class Layout:
    """A structure of `nbytes` bytes, little endian; bytes without a field are reserved and zero."""

    name: str
    nbytes: int
    fields: tuple[Field, ...]

    @cached_property
    def offset(self) -> dict[str, int]:
        """Byte offset of each field by name."""
        return {f.name: f.offset for f in self.fields}

    @cached_property
    def end(self) -> int:
        """Bytes up to the end of the last field; what follows is reserved."""
        last = self.fields[-1]
        return last.offset + struct.calcsize("<" + _CODE[last.type])

    @cached_property
    def dtype(self) -> np.dtype[np.void]:
        """The NumPy structured dtype, for arrays of this structure."""
        return np.dtype(
            {
                "names": [f.name for f in self.fields],
                "formats": [_NUMPY[f.type] for f in self.fields],
                "offsets": [f.offset for f in self.fields],
                "itemsize": self.nbytes,
            }
        )

    @cached_property
    def _struct(self) -> struct.Struct:
        """All fields in one go; `x` stands for reserved bytes."""
        text, end = "<", 0
        for f in self.fields:
            text += "x" * (f.offset - end) + _CODE[f.type]
            end = f.offset + struct.calcsize("<" + _CODE[f.type])
        return struct.Struct(text + "x" * (self.nbytes - end))

    def pack(self, **values: int) -> bytes:
        """The bytes of one structure; fields not given are zero.

        Raises TypeError for an unknown field and ValueError for a value that its type cannot hold.
        """
        unknown = values.keys() - self.offset.keys()
        if unknown:
            raise TypeError(f"{self.name} has no field {sorted(unknown)}; it has {list(self.offset)}")
        for f in self.fields:
            low, high = _RANGE[f.type]
            if not low <= values.get(f.name, 0) <= high:
                raise ValueError(f"{self.name}.{f.name} = {values[f.name]} does not fit {f.type} ({low} to {high})")
        return self._struct.pack(*(values.get(f.name, 0) for f in self.fields))

    def unpack(self, data: bytes | bytearray | memoryview) -> dict[str, int]:
        """Field values of the structure that `data` begins with; raises ValueError when it is too short."""
        if len(data) < self.nbytes:
            raise ValueError(f"{self.name} needs {self.nbytes} bytes, got {len(data)}")
        return dict(zip(self.offset, self._struct.unpack_from(data), strict=True))
