# SPDX-License-Identifier: Apache-2.0
"""What the model sees of a card: three AXI masters that read and write words of 64 bytes, and faults with their status.

Knows no descriptor. An access outside a master's regions is a fault at the first word that no region holds whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from nearkv_driver.regmap import NOT_APPLICABLE, WORD_BYTES, Status
from numpy.typing import NDArray

from nearkv_emulation.kernel import Region

Bytes = NDArray[np.uint8]


class Fault(Exception):
    """Ends a job; the attributes are the fields of its status."""

    def __init__(
        self,
        code: Status,
        *,
        segment: int = NOT_APPLICABLE,
        page: int = NOT_APPLICABLE,
        kind: int = NOT_APPLICABLE,
        position: int = NOT_APPLICABLE,
        detail: int = NOT_APPLICABLE,
        address: int = 0,
    ) -> None:
        super().__init__(code.name)
        self.code = code
        self.segment, self.page, self.kind, self.position = segment, page, kind, position
        self.detail, self.address = detail, address


class Master:
    """One AXI master: `index` as in status.detail, `beats` counts the words read since it was last set to zero."""

    def __init__(self, index: int, regions: Sequence[Region]) -> None:
        self.index = index
        self.beats = 0
        self._regions = tuple(regions)

    def read(self, address: int, nbytes: int) -> Bytes:
        """`nbytes` from `address` on; a view where one region holds them all. Raises Fault (axi_read)."""
        first = address - address % WORD_BYTES
        parts = []
        for part in self._parts(Status.AXI_READ, first, address + nbytes):
            self.beats += len(part) // WORD_BYTES
            parts.append(part)
        whole = parts[0] if len(parts) == 1 else np.concatenate([*parts, np.zeros(0, np.uint8)])
        return whole[address - first : address - first + nbytes]

    def peek(self, address: int, nbytes: int) -> Bytes:
        """Like `read` for words that were read before: nothing is counted."""
        beats = self.beats
        data = self.read(address, nbytes)
        self.beats = beats
        return data

    def write(self, address: int, data: Bytes) -> None:
        """Writes whole words from `address` (a multiple of 64) on. Raises Fault (axi_write)."""
        done = 0
        for part in self._parts(Status.AXI_WRITE, address, address + len(data)):
            part[:] = data[done : done + len(part)]
            done += len(part)

    def _parts(self, code: Status, address: int, end: int) -> Iterator[Bytes]:
        """The pieces of region memory behind the words from `address` up to the word that holds end - 1."""
        end += -end % WORD_BYTES
        while address < end:
            for region in self._regions:
                words = (region.base + len(region.memory) - address) // WORD_BYTES
                if region.base <= address and words > 0:
                    break
            else:
                raise Fault(code, detail=self.index, address=address)
            nbytes = min(end - address, words * WORD_BYTES)
            yield region.memory[address - region.base : address - region.base + nbytes]
            address += nbytes
