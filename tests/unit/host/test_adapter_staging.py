# SPDX-License-Identifier: Apache-2.0
"""Staging waits before it reads and before it overwrites, whatever the device takes its time for."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
import torch
from nearkv.adapters.transformers.engines import Engine, Event, HostEngine, engine_for
from nearkv.adapters.transformers.staging import Staging


class Later:
    """An event whose copies happen when somebody waits for it, and once."""

    def __init__(self, copies: Callable[[], None], log: list[str], name: str) -> None:
        self._copies: Callable[[], None] | None = copies
        self._log, self._name = log, name

    def wait(self) -> None:
        self._log.append(f"wait {self._name}")
        if self._copies is not None:
            self._copies()
            self._copies = None


class SlowEngine(HostEngine):
    """As late as a device may be: bytes come down, and memory is read for the way up, at the wait and not before."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self._count = 0

    def memory(self, nbytes: int) -> torch.Tensor:
        return torch.full((nbytes,), 0xA5, dtype=torch.uint8)

    def to_host(self, places: Sequence[torch.Tensor], sources: Sequence[torch.Tensor]) -> Event:
        self._count += 1
        held = [source.clone() for source in sources]

        def copies() -> None:
            for place, source in zip(places, held, strict=True):
                place.copy_(source)

        return Later(copies, self.log, f"down {self._count}")

    def to_device(self, source: torch.Tensor) -> tuple[torch.Tensor, Event]:
        self._count += 1
        there = torch.empty_like(source)

        def copies() -> None:
            there.copy_(source)

        return there, Later(copies, self.log, f"up {self._count}")


ENGINES: list[Callable[[], Engine]] = [HostEngine, SlowEngine]


@pytest.mark.parametrize("engine", ENGINES)
def test_tensors_of_several_types_arrive_together(engine: Callable[[], Engine]) -> None:
    staging = Staging(engine())
    for n in (1, 5, 3, 40):
        tensors = [
            torch.randn(2, 3, n, 64).to(torch.float16),
            torch.randn(2, 3, n, 64, dtype=torch.float32).transpose(0, 1),
            torch.tensor(n),
            torch.zeros(0, 4, dtype=torch.float32),
        ]
        for array, tensor in zip(staging.fetch(tensors).wait(), tensors, strict=True):
            np.testing.assert_array_equal(array, tensor.numpy())


def test_memory_is_not_reused_under_a_copy() -> None:
    engine = SlowEngine()
    staging = Staging(engine)
    staging.fetch([torch.ones(8)])
    second = staging.fetch([torch.full((8,), 2.0)])
    assert engine.log == ["wait down 1"]
    np.testing.assert_array_equal(second.wait()[0], np.full(8, 2.0))
    first_up = staging.send(np.full(8, 3.0, np.float32))
    staging.send(np.full(8, 4.0, np.float32))
    assert engine.log[2:] == ["wait up 3"]
    np.testing.assert_array_equal(first_up.numpy(), np.full(8, 3.0))


def test_what_was_sent_stays_when_the_memory_is_used_again() -> None:
    staging = Staging(HostEngine())
    first = staging.send(np.arange(6, dtype=np.float32))
    staging.send(np.zeros(6, np.float32))
    np.testing.assert_array_equal(first.numpy(), np.arange(6))


def test_engines_are_chosen_by_device() -> None:
    assert isinstance(engine_for(torch.device("cpu")), HostEngine)
    with pytest.raises(ValueError, match="no engine for a model on meta"):
        engine_for(torch.device("meta"))
