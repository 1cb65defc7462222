# SPDX-License-Identifier: Apache-2.0
"""Files of named arrays in the safetensors format, as UserError tells what is wrong with them. Knows no name."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from nearkv.errors import UserError, one_line


def save_tensors(tensors: Mapping[str, NDArray[Any]], path: Path, facts: Mapping[str, str]) -> None:
    """Writes the file whole or not at all, for its owner alone; it and its name are durable when this returns. `facts`
    are text beside the arrays."""
    from safetensors import SafetensorError
    from safetensors.numpy import save_file

    try:
        # In a folder of its own: the library makes files beside the one that it is given.
        with tempfile.TemporaryDirectory(prefix=f".{path.name[:40]}.", dir=path.parent) as private:
            part = Path(private) / "part"
            save_file(dict(tensors), part, metadata=dict(facts))
            part.chmod(0o600)  # whatever the library gives it
            _sync(part, os.O_RDONLY)
            part.rename(path)
        _sync(path.parent, os.O_RDONLY | os.O_DIRECTORY)  # who has it may remove what it was made from
    except (OSError, SafetensorError) as error:
        raise UserError(f"{path} cannot be written: {one_line(error)}") from error


def _sync(path: Path, flags: int) -> None:
    fd = os.open(path, flags | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


class TensorFile:
    """An open file: its `facts`, and its arrays, each read when it is asked for. A context manager."""

    def __init__(self, path: Path) -> None:
        from safetensors import SafetensorError, safe_open

        self._path = path
        try:
            if path.exists() and not path.is_file():  # the library would wait for a pipe
                raise UserError(f"{path} is no regular file")
            opener: Any = safe_open
            self._file = opener(path, framework="np").__enter__()
        except (OSError, SafetensorError) as error:
            raise UserError(f"{path} cannot be read: {one_line(error)}") from error
        self.facts: dict[str, str] = self._file.metadata() or {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def names(self) -> set[str]:
        return set(self._file.keys())

    def tensor(self, name: str) -> NDArray[Any]:
        """UserError for one of a type that NumPy does not have, such as bfloat16."""
        from safetensors import SafetensorError

        try:
            return np.asarray(self._file.get_tensor(name))
        except (TypeError, AttributeError, OSError, SafetensorError) as error:
            raise UserError(f"{self._path}: {name} cannot be read: {one_line(error)}") from error

    def close(self) -> None:
        self._file.__exit__(None, None, None)
