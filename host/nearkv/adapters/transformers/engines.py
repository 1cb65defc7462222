# SPDX-License-Identifier: Apache-2.0
"""How bytes get from a model's device to host memory and back: one engine for the CPU, one for CUDA. Decides nothing.

CudaEngine has not been run: no GPU was at hand. Its interface is the CPU engine's, which the tests drive.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, Protocol

import torch


class Event(Protocol):
    """Something that the host can wait for."""

    def wait(self) -> None: ...


class Engine(Protocol):
    """Copies of one device. A lane is a sequence of work on it; lanes may overlap."""

    def memory(self, nbytes: int) -> torch.Tensor:
        """Host memory as bytes, page-locked where the device wants that."""
        ...

    def to_host(self, places: Sequence[torch.Tensor], sources: Sequence[torch.Tensor]) -> Event:
        """Copies the sources as they are after all work given so far; later work does not wait for the copies."""
        ...

    def to_device(self, source: torch.Tensor) -> tuple[torch.Tensor, Event]:
        """A copy of host memory, for work that is given later; the event says when the memory is free again."""
        ...

    def mark(self) -> Any:
        """What has been given to this thread's lane so far."""
        ...

    def lane(self, after: Any) -> AbstractContextManager[None]:
        """Work given inside runs in a lane of its own, behind `after`."""
        ...

    def join(self, mark: Any, results: Sequence[torch.Tensor]) -> None:
        """Work of this thread's lane waits for `mark`, and may use `results`, which another lane made."""
        ...


class _Done:
    """An event that has happened."""

    def wait(self) -> None:
        pass


class HostEngine:
    """The device is the CPU: copies are done when the call returns."""

    def memory(self, nbytes: int) -> torch.Tensor:
        return torch.empty(nbytes, dtype=torch.uint8)

    def to_host(self, places: Sequence[torch.Tensor], sources: Sequence[torch.Tensor]) -> Event:
        for place, source in zip(places, sources, strict=True):
            place.copy_(source)
        return _Done()

    def to_device(self, source: torch.Tensor) -> tuple[torch.Tensor, Event]:
        return source.clone(), _Done()

    def mark(self) -> Any:
        return None

    def lane(self, after: Any) -> AbstractContextManager[None]:
        return nullcontext()

    def join(self, mark: Any, results: Sequence[torch.Tensor]) -> None:
        pass


class _CudaEvent:
    def __init__(self, event: torch.cuda.Event) -> None:
        self._event = event

    def wait(self) -> None:
        self._event.synchronize()


class CudaEngine:
    """Copies run on a stream of their own, one each way, from and to page-locked memory."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._down: Any = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        self._up: Any = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]

    def memory(self, nbytes: int) -> torch.Tensor:
        return torch.empty(nbytes, dtype=torch.uint8, pin_memory=True)

    def to_host(self, places: Sequence[torch.Tensor], sources: Sequence[torch.Tensor]) -> Event:
        self._down.wait_stream(torch.cuda.current_stream(self._device))
        with torch.cuda.stream(self._down):
            for place, source in zip(places, sources, strict=True):
                place.copy_(source, non_blocking=True)
                source.record_stream(self._down)  # its memory is not given to others before the copy
        return _CudaEvent(self._down.record_event())

    def to_device(self, source: torch.Tensor) -> tuple[torch.Tensor, Event]:
        computing = torch.cuda.current_stream(self._device)
        with torch.cuda.stream(self._up):
            there = source.to(self._device, non_blocking=True)
        copied = self._up.record_event()
        computing.wait_event(copied)
        there.record_stream(computing)
        return there, _CudaEvent(copied)

    def mark(self) -> Any:
        return torch.cuda.current_stream(self._device).record_event()

    @contextmanager
    def lane(self, after: Any) -> Iterator[None]:
        stream: Any = torch.cuda.Stream(self._device)  # type: ignore[no-untyped-call]
        stream.wait_event(after)
        with torch.cuda.stream(stream):
            yield

    def join(self, mark: Any, results: Sequence[torch.Tensor]) -> None:
        computing = torch.cuda.current_stream(self._device)
        computing.wait_event(mark)
        for result in results:
            result.record_stream(computing)


def engine_for(device: torch.device) -> Engine:
    """The engine of a model's device; ValueError for a kind of device that there is none for."""
    if device.type == "cpu":
        return HostEngine()
    if device.type == "cuda":
        return CudaEngine(device)
    raise ValueError(f"no engine for a model on {device}; it can be on the CPU or on CUDA")
