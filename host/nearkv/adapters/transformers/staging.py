# SPDX-License-Identifier: Apache-2.0
"""Host memory through which rows pass between the model's device and the store, and when they may. Computes nothing.

q, k and v of a call come down together and one wait covers them; output goes up without a wait. The same code serves
every device: an engine says how bytes are copied (`engines`). What a fetch gives is valid until the next fetch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from numpy.typing import NDArray

from nearkv.adapters.transformers.engines import Engine, Event

_ALIGN = 64


@dataclass(frozen=True, eq=False)
class Fetch:
    """Tensors on their way to the host."""

    event: Event
    tensors: Sequence[torch.Tensor]

    def wait(self) -> list[NDArray[Any]]:
        """The arrays, when all have arrived."""
        self.event.wait()
        return [tensor.numpy() for tensor in self.tensors]


class Staging:
    """Buffers for one stream of calls, each of which fetches, works on the host and sends. One thread at a time."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._down, self._up = engine.memory(0), engine.memory(0)
        self._fetched: Event | None = None
        self._sent: Event | None = None

    def fetch(self, tensors: Sequence[torch.Tensor]) -> Fetch:
        """Starts to copy tensors of the device; the device goes on meanwhile."""
        if self._fetched is not None:
            self._fetched.wait()  # a fetch that nobody waited for may still write to the memory
        shapes = [(tensor.shape, tensor.dtype) for tensor in tensors]
        self._down, places = self._places(self._down, shapes)
        self._fetched = self.engine.to_host(places, tensors)
        return Fetch(self._fetched, places)

    def send(self, rows: NDArray[Any]) -> torch.Tensor:
        """The rows on the device: what the device does from here on finds them there."""
        if self._sent is not None:
            self._sent.wait()  # the device may still read the memory
        source = torch.from_numpy(rows)
        self._up, (place,) = self._places(self._up, [(source.shape, source.dtype)])
        place.copy_(source)
        there, self._sent = self.engine.to_device(place)
        return there

    def _places(
        self, memory: torch.Tensor, shapes: Sequence[tuple[torch.Size, torch.dtype]]
    ) -> tuple[torch.Tensor, list[torch.Tensor]]:
        """Tensors of these shapes in the memory, which is replaced when it is too small."""
        starts, end = [], 0
        for shape, dtype in shapes:
            starts.append(end)
            end += -(-shape.numel() * dtype.itemsize // _ALIGN) * _ALIGN
        if memory.numel() < end:
            memory = self.engine.memory(end)
        parts = [
            memory[start : start + shape.numel() * dtype.itemsize].view(dtype).view(shape)
            for start, (shape, dtype) in zip(starts, shapes, strict=True)
        ]
        return memory, parts
