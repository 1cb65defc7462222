# SPDX-License-Identifier: Apache-2.0
"""Golden vectors: the file format, and replay on any implementation. `tests/vectors/README.md` describes the file.

Makes no vectors; `tests/vectors/make_vectors.py` does.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from nearkv_emulation.kernel import Kernel
from numpy.typing import NDArray

from tests.support.jobs import Image

Bytes = NDArray[np.uint8]
Span = tuple[int, int]  # offset in the memory, bytes
PATH = Path(__file__).parents[1] / "vectors" / "attend-v1.npz"
FORMAT = 1


@dataclass(frozen=True)
class Vector:
    """Memory before a list and after it; bytes in `masked` may differ between implementations."""

    name: str
    image: Image
    after: Bytes
    masked: tuple[Span, ...]

    def differing(self, kernel: Kernel) -> list[int]:
        """Addresses at which the kernel leaves something else."""
        return self.differing_in(self.image.run(kernel))

    def differing_in(self, memory: Bytes) -> list[int]:
        """Addresses at which memory after the list holds something else."""
        differ = memory != self.after
        for at, nbytes in self.masked:
            differ[at : at + nbytes] = False
        return [int(at) + self.image.base for at in np.flatnonzero(differ)]


def load(path: Path = PATH) -> list[Vector]:
    """All vectors of a file, in its order. ValueError for a format that this code does not know."""
    with np.load(path) as arrays:
        index = json.loads(arrays["index"].tobytes())
        data = arrays["bytes"]
        images = {name: arrays[f"image:{name}"] for name in index["images"]}
    if index["format"] != FORMAT:
        raise ValueError(f"{path} has format {index['format']}, this code reads {FORMAT}")
    vectors, taken = [], 0
    for entry in index["vectors"]:
        before = images[entry["image"]].copy()
        for at, nbytes in entry["patch"]:
            before[at : at + nbytes] = data[taken : taken + nbytes]
            taken += nbytes
        after = before.copy()
        for at, nbytes in entry["result"]:
            after[at : at + nbytes] = data[taken : taken + nbytes]
            taken += nbytes
        holes = tuple((m, a, b) for m, a, b in entry["holes"])
        registers = entry["kv"], entry["ctl"], entry["out"]
        image = Image(before, *registers, jobs=(), placed=(), base=entry["base"], holes=holes)
        vectors.append(Vector(entry["name"], image, after, tuple((at, n) for at, n in entry["masked"])))
    return vectors


def replay(kernel: Kernel, vectors: Iterable[Vector] | None = None) -> dict[str, str]:
    """What goes wrong, by vector; empty when the kernel gives every byte of the file."""
    wrong = {}
    for vector in load() if vectors is None else vectors:
        differ = vector.differing(kernel)
        if differ:
            wrong[vector.name] = f"{len(differ)} bytes differ, the first at {differ[0]:#x}"
    return wrong


def spans(differ: NDArray[np.bool_]) -> list[Span]:
    """Runs of True as (offset, length)."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], differ, [False]]).astype(np.int8)))
    return [(int(a), int(b - a)) for a, b in edges.reshape(-1, 2)]


def save(path: Path, vectors: Sequence[tuple[str, Vector]]) -> None:
    """Writes vectors, each with the name of the image that it is stored as a difference to (the first to name it)."""
    images: dict[str, Bytes] = {}
    entries, data = [], []
    for image_name, vector in vectors:
        before = vector.image.memory
        base = images.setdefault(image_name, before)
        changed = before != vector.after
        for at, nbytes in vector.masked:
            changed[at : at + nbytes] = False
        patch, result = spans(base != before), spans(changed)
        data += [before[at : at + nbytes] for at, nbytes in patch]
        data += [vector.after[at : at + nbytes] for at, nbytes in result]
        image = vector.image
        entry = {"name": vector.name, "image": image_name, "patch": patch, "result": result, "masked": vector.masked}
        entry |= {"base": image.base, "kv": image.kv, "ctl": image.ctl, "out": image.out, "holes": image.holes}
        entries.append(entry)
    index = {"format": FORMAT, "images": list(images), "vectors": entries}
    arrays = {"index": np.frombuffer(json.dumps(index).encode(), np.uint8), "bytes": np.concatenate(data)}
    arrays |= {f"image:{name}": memory for name, memory in images.items()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as file:
        for name, array in arrays.items():
            buffer = io.BytesIO()
            np.save(buffer, array)
            # No time of day in the file: the same vectors are the same bytes.
            file.writestr(zipfile.ZipInfo(f"{name}.npy"), buffer.getvalue(), zipfile.ZIP_DEFLATED)
