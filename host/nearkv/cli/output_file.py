# SPDX-License-Identifier: Apache-2.0
"""A file that a command writes at its end: refused before the work where it cannot be, whole or as it was behind it.

It knows nothing of what is written.
"""

from __future__ import annotations

import os
import secrets
import stat
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from types import TracebackType

from nearkv.errors import UserError, one_line


class OutputFile:
    """Context: a new file beside the one that is asked for, which takes its place when it is `fill`ed and is removed
    otherwise. `what`: for messages, such as `trace file`."""

    def __init__(self, path: Path, what: str) -> None:
        self._path, self._what = path, what
        self._target = self._new = path

    def __enter__(self) -> OutputFile:
        """UserError where the file cannot be written; what is there stays as it is."""
        try:
            self._target = Path(os.path.realpath(self._path))  # a link goes on pointing there
            there = self._path.stat() if self._path.exists() else None
            if there is not None:
                self._check(there)
            self._new = self._target.with_name(f".nearkv-{secrets.token_hex(8)}{self._target.suffix}")
            with self._new.open("xb"):
                if there is not None:
                    self._new.chmod(stat.S_IMODE(there.st_mode))
        except UserError:
            raise
        except OSError as error:  # without the new file's name, of which nobody knows
            raise UserError(f"{self._what} {self._path}: {error.strerror or one_line(error)}") from error
        except ValueError as error:  # a zero byte in the name
            raise UserError(f"{self._what} {self._path}: {one_line(error)}") from error
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._new.unlink(missing_ok=True)

    def fill(self, write: Callable[[Path], object]) -> None:
        """`write` gets the new file, whose name has the same ending."""
        try:
            write(self._new)
            self._new.replace(self._target)
        except OSError as error:
            raise UserError(f"{self._what} {self._path}: {error.strerror or one_line(error)}") from error

    def fill_text(self, text: str) -> None:
        self.fill(lambda path: path.write_text(text, encoding="utf-8"))

    def _check(self, there: os.stat_result) -> None:
        """A device or pipe cannot be replaced, and two documents in one stream are none."""
        if not stat.S_ISREG(there.st_mode):
            raise UserError(f"{self._what} {self._path}: it is no regular file")
        if not os.access(self._target, os.W_OK):
            raise UserError(f"{self._what} {self._path}: Permission denied")
        for stream in (sys.__stdout__, sys.__stderr__):
            try:
                own = None if stream is None else os.fstat(stream.fileno())
            except (OSError, ValueError):
                continue
            if own is not None and os.path.samestat(there, own):
                raise UserError(f"{self._what} {self._path}: it is where this program's own output goes")


def output_file(path: Path | None, what: str) -> AbstractContextManager[OutputFile | None]:
    """None where no file is asked for."""
    return nullcontext() if path is None else OutputFile(path, what)
