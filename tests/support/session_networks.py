# SPDX-License-Identifier: Apache-2.0
"""A network without a model, for sessions: its next token depends on all tokens and on the pieces they came in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b

from nearkv.session.records import Sampling
from nearkv_driver.errors import DriverError


@dataclass
class Medium:
    """What outlives a network: (token, piece) of each durable position, a piece being (first, end) of its forward."""

    cells: list[tuple[int, tuple[int, int]]] = field(default_factory=list)


class FakeNetwork:
    """`unit` positions become durable together, as spills do; the rest at `flush`. A crop is durable at once.

    After `fail_in` more forwards one fails; with `crop_fails` the next crop does. Either leaves everything as it was.
    """

    def __init__(self, medium: Medium, unit: int = 4) -> None:
        self._medium, self._unit = medium, unit
        self.cells = list(medium.cells)
        self._before_durable: Callable[[], None] = lambda: None
        self.fail_in: int | None = None
        self.crop_fails = False
        self.forwards = 0

    @property
    def cached(self) -> int:
        return len(self.cells)

    @property
    def held(self) -> list[int]:
        return [token for token, _ in self.cells]

    def guard(self, before_durable: Callable[[], None]) -> None:
        self._before_durable = before_durable

    def crop(self, tokens: int) -> None:
        if self.crop_fails:
            self.crop_fails = False
            raise DriverError("the crop failed")
        del self.cells[tokens:]
        del self._medium.cells[tokens:]

    def forward(self, tokens: Sequence[int]) -> bytes:
        self.forwards += 1
        if self.fail_in is not None:
            self.fail_in -= 1
            if self.fail_in < 0:
                self.fail_in = None
                raise DriverError("the card failed")
        first = len(self.cells)
        if (first + len(tokens)) // self._unit * self._unit > len(self._medium.cells):
            self._before_durable()
        self.cells += [(token, (first, first + len(tokens))) for token in tokens]
        whole = len(self.cells) // self._unit * self._unit
        if whole > len(self._medium.cells):
            self._medium.cells[:] = self.cells[:whole]
        return blake2b(repr(self.cells).encode(), digest_size=8).digest()

    def choose(self, scores: bytes, sampling: Sampling, position: int) -> int:
        seed = f"{sampling.seed}/{position}".encode() if sampling.temperature else b""
        return int.from_bytes(blake2b(scores + seed, digest_size=2).digest(), "little") % 1000

    def flush(self) -> None:
        self._before_durable()
        self._medium.cells[:] = self.cells
