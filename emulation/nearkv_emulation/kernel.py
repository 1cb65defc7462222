# SPDX-License-Identifier: Apache-2.0
"""What an implementation of `nearkv_attend` looks like to the emulator: memory in, memory out. Definitions only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Region:
    """Device memory that one AXI master can reach: `memory` uint8 [nbytes], writable, at device address `base`."""

    base: int
    memory: NDArray[np.uint8]


@dataclass(frozen=True)
class Masters:
    """The regions behind each AXI master; an access outside them is answered with DECERR."""

    kv: Sequence[Region]
    ctl: Sequence[Region]
    out: Sequence[Region]


class Kernel(Protocol):
    """One implementation of docs/kernel-contract.md."""

    def run(self, masters: Masters, kv: int, ctl: int, out: int) -> None:
        """Processes the list at `ctl`; the three values are those of the KV, CTL and OUT registers.

        Returns when the list has ended; what happened is in the status blocks at `out`.
        """
        ...
