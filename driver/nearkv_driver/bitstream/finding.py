# SPDX-License-Identifier: Apache-2.0
"""One sentence about one line of a configuration. Knows no rule."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Finding:
    """`line` 0 means the file as a whole. A warning does not stop a build."""

    line: int
    text: str
    is_error: bool = True

    def at(self, file: str) -> str:
        where = f"{file}:{self.line}" if self.line else file
        return f"{where}: {self.text}" if self.is_error else f"{where}: warning: {self.text}"
