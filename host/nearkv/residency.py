# SPDX-License-Identifier: Apache-2.0
"""Which extents of one card stay in its memory: the first that come, as long as there is room. Moves no data.

Whatever else the store needs on the card goes before extents: the latest extent leaves when it is in the way. What has
left is read from flash when it is needed; attention is the same either way.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from nearkv_driver.device import NearDevice
from nearkv_driver.errors import OutOfDeviceMemory

from nearkv.extents import ExtentPool, ExtentRun
from nearkv.layout import ModelLayout

# Kept free for lists, their replies and states, which grow with the batch.
_SPARE_NBYTES, _SPARE_SHARE = 384 << 10, 16

T = TypeVar("T")


class Residency:
    """Card memory for extents. `on_evict` is asked before a run leaves: False keeps it, after True nobody may
    use it."""

    def __init__(
        self,
        device: NearDevice,
        layout: ModelLayout,
        on_evict: Callable[[ExtentRun], bool],
        *,
        p2p: bool,
        limit_nbytes: int | None,
    ) -> None:
        self._pool = ExtentPool(device, layout, p2p=p2p)
        self._on_evict = on_evict
        self._slot_nbytes = layout.slot_nbytes
        self._bank_nbytes = device.info.banks[device.info.masters["kv"]].nbytes
        self._limit = self._bank_nbytes if limit_nbytes is None else limit_nbytes
        self._spare = max(_SPARE_NBYTES, self._bank_nbytes // _SPARE_SHARE)
        self._runs: list[ExtentRun] = []

    @property
    def nbytes(self) -> int:
        """Card memory taken: pages and checksums."""
        return self._pool.nbytes

    @property
    def used_nbytes(self) -> int:
        """Pages in use."""
        return self._pool.used_nbytes

    def take(self, slots: int, other_nbytes: int) -> ExtentRun | None:
        """Memory for an extent group, or None; `other_nbytes` is what the store has on the card beside extents."""
        if self.used_nbytes + slots * self._slot_nbytes > self._limit:
            return None
        run = self._pool.take(slots, self._room(other_nbytes))
        if run is not None:
            self._runs.append(run)
        return run

    def release(self, run: ExtentRun) -> None:
        self._runs.remove(run)
        self._pool.release(run)

    def before_extents(self, take: Callable[[], T], other_nbytes: Callable[[], int]) -> T:
        """What `take` takes from the card; extents leave until there is room for it and for what is kept free."""
        while True:
            try:
                taken = take()
                break
            except OutOfDeviceMemory:
                if not self.evict():
                    raise
        while self._room(other_nbytes()) < 0 and self.evict():
            pass
        return taken

    def evict(self) -> bool:
        """The latest extent that can leave does; False when there is none."""
        for run in reversed(self._runs):
            if self._on_evict(run):
                self.release(run)
                return True
        return False

    def _room(self, other_nbytes: int) -> int:
        return self._bank_nbytes - self._spare - other_nbytes - self._pool.nbytes
