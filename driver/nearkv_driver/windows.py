# SPDX-License-Identifier: Apache-2.0
"""Address ranges that AXI masters may touch, and the check that a descriptor's address lies in one."""

from __future__ import annotations

from dataclasses import dataclass

from nearkv_driver.errors import BuildMismatch
from nearkv_driver.regmap import WORD_BYTES
from nearkv_driver.transport import CardInfo


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

    @classmethod
    def of(cls, info: CardInfo) -> Windows:
        """The whole bank of each master. BuildMismatch unless it is one: a master reads what another one wrote, kv the
        tail that out copied, ctl the state that out left."""
        banks = {master: info.banks[index] for master, index in info.masters.items()}
        if len({bank.tag for bank in banks.values()}) > 1:
            found = ", ".join(f"m_axi_{master} on {bank.tag}" for master, bank in banks.items())
            raise BuildMismatch("memory of the kernel", card=info.url, wanted="all masters on one bank", found=found)
        return cls(*(Window(master, banks[master].base, banks[master].nbytes) for master in ("kv", "ctl", "out")))
