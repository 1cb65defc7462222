# SPDX-License-Identifier: Apache-2.0
"""Address ranges that AXI masters may touch, and the check that a descriptor's address lies in one."""

from __future__ import annotations

from dataclasses import dataclass

from nearkv_driver.regmap import WORD_BYTES


@dataclass(frozen=True)
class Window:
    """The addresses [base, base + nbytes) of one master; `name` is the master's, for messages."""

    name: str
    base: int
    nbytes: int

    def __str__(self) -> str:
        return f"m_axi_{self.name}, {self.base:#x} to {self.base + self.nbytes:#x}"

    def check(self, what: str, address: int, nbytes: int, align: int = WORD_BYTES) -> None:
        """Raises ValueError unless [address, address + nbytes) is aligned and inside."""
        if address % align:
            raise ValueError(f"{what} = {address:#x} is not a multiple of {align}")
        if address < self.base or address + nbytes > self.base + self.nbytes:
            raise ValueError(f"{what} = {address:#x} with {nbytes} bytes leaves the window of {self}")


@dataclass(frozen=True)
class Windows:
    """One window per AXI master."""

    kv: Window
    ctl: Window
    out: Window
