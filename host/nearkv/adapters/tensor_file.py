# SPDX-License-Identifier: Apache-2.0
"""Files of named NumPy arrays in the safetensors format. Knows nothing of what they hold."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from numpy.typing import NDArray

from nearkv.errors import UserError, one_line


def save_tensors(path: Path, tensors: Mapping[str, NDArray[Any]], facts: Mapping[str, str]) -> None:
    """Writes the file; OSError as the system raises it."""
    from safetensors.numpy import save_file

    save_file(dict(tensors), path, metadata=dict(facts))


class TensorFile:
    """An open file, whose header has been checked by the library. A context manager."""

    def __init__(self, path: Path) -> None:
        """UserError for a file that cannot be read or is none of its format."""
        from safetensors import SafetensorError, safe_open

        opener: Any = safe_open
        try:
            self._file = opener(path, framework="np").__enter__()
        except (OSError, SafetensorError) as error:
            raise UserError(f"{path} cannot be read: {one_line(error)}") from error

    def __enter__(self) -> TensorFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def facts(self) -> dict[str, str]:
        return dict(self._file.metadata() or {})

    @property
    def names(self) -> set[str]:
        return set(self._file.keys())

    def read(self, name: str) -> NDArray[Any]:
        array: NDArray[Any] = self._file.get_tensor(name)
        return array

    def close(self) -> None:
        self._file.__exit__(None, None, None)
