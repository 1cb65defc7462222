# SPDX-License-Identifier: Apache-2.0
"""A buffer of a real card: `nearkv_driver.transport.Buffer` over a buffer object of XRT. Knows no bank sizes."""

from __future__ import annotations

from collections.abc import Callable

from nearkv_driver.errors import BufferMisuse, DriverError
from nearkv_driver.transport import Bytes
from nearkv_driver.xrt.api import XrtBo, XrtError


class XrtBuffer:
    """A normal one has its host copy in XRT's own memory; of a P2P one the host sees the card's memory itself."""

    def __init__(
        self, bo: XrtBo, nbytes: int, bank: int, p2p: bool, card: str, freed: Callable[[XrtBuffer], None]
    ) -> None:
        self._bo, self._nbytes, self._bank, self._p2p, self._card = bo, nbytes, bank, p2p, card
        self._when_freed = freed
        self._address = bo.address
        self._memory: memoryview | None = bo.map()

    @property
    def nbytes(self) -> int:
        return self._nbytes

    @property
    def address(self) -> int:
        self._require(0, 0)
        return self._address

    @property
    def bank(self) -> int:
        return self._bank

    @property
    def p2p(self) -> bool:
        return self._p2p

    @property
    def bo(self) -> XrtBo:
        return self._bo

    def write(self, data: Bytes, offset: int = 0) -> None:
        source = memoryview(data).cast("B")
        memory = self._copy("write", source.nbytes, offset)
        memory[offset : offset + source.nbytes] = source

    def read(self, nbytes: int, offset: int = 0) -> bytes:
        return bytes(self._copy("read", nbytes, offset)[offset : offset + nbytes])

    def sync_to_device(self, nbytes: int, offset: int = 0) -> None:
        self._copy("sync_to_device", nbytes, offset)
        self._sync(nbytes, offset, to_device=True)

    def sync_from_device(self, nbytes: int, offset: int = 0) -> None:
        self._copy("sync_from_device", nbytes, offset)
        self._sync(nbytes, offset, to_device=False)

    def view(self, nbytes: int, offset: int = 0) -> memoryview:
        memory = self._require(nbytes, offset)
        if not self._p2p:
            raise BufferMisuse("view of a buffer that is not P2P", card=self._card)
        return memory[offset : offset + nbytes]

    def free(self) -> None:
        if self._memory is None:
            return
        self._memory = None
        self._bo.free()
        self._when_freed(self)

    def _sync(self, nbytes: int, offset: int, *, to_device: bool) -> None:
        if nbytes == 0:  # XRT takes 0 for the whole buffer
            return
        try:
            self._bo.sync(nbytes, offset, to_device=to_device)
        except XrtError as error:
            way = "to" if to_device else "from"
            raise DriverError(f"XRT moved no {nbytes} bytes {way} the card: {error}", card=self._card) from error

    def _copy(self, what: str, nbytes: int, offset: int) -> memoryview:
        memory = self._require(nbytes, offset)
        if self._p2p:
            raise BufferMisuse(f"{what} of a P2P buffer: only the drive writes it", card=self._card)
        return memory

    def _require(self, nbytes: int, offset: int) -> memoryview:
        if self._memory is None:
            raise BufferMisuse("a buffer was used after it was freed", card=self._card)
        if offset < 0 or nbytes < 0 or offset + nbytes > self._nbytes:
            raise BufferMisuse(f"{nbytes} bytes at {offset} leave the buffer of {self._nbytes} bytes", card=self._card)
        return self._memory
