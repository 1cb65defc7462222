# SPDX-License-Identifier: Apache-2.0
"""Progress counts layers once, whatever modules and chunks a model has, and leaves no hook behind."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from nearkv.prefill import PrefillWatch


class Module:
    def __init__(self, layer_idx: object = None) -> None:
        self.hooks: list[Callable[..., None]] = []
        if layer_idx is not None:
            self.layer_idx = layer_idx

    def register_forward_hook(self, hook: Callable[..., None]) -> Any:
        self.hooks.append(hook)
        hooks = self.hooks

        class Handle:
            def remove(self) -> None:
                hooks.remove(hook)

        return Handle()

    def run(self) -> None:
        for hook in list(self.hooks):
            assert hook(self, (), None) is None  # a value would replace the module's output


class Model:
    def __init__(self, *modules: Module) -> None:
        self._modules = modules

    def modules(self) -> Iterator[Module]:
        return iter(self._modules)


def test_each_layer_counts_once() -> None:
    modules = [Module(), Module(0), Module(0), Module(1), Module("x")]
    seen: list[tuple[int, int]] = []
    with PrefillWatch(Model(*modules), lambda done, total: seen.append((done, total))):
        for module in [*modules, *modules]:
            module.run()
    assert seen == [(0, 2), (1, 2), (2, 2)]
    assert not any(module.hooks for module in modules)


def test_after_stop_nothing_is_told() -> None:
    module = Module(0)
    seen: list[tuple[int, int]] = []
    with PrefillWatch(Model(module), lambda done, total: seen.append((done, total))) as watch:
        watch.stop()
        watch.stop()
        module.run()
    assert seen == [(0, 1)]


def test_a_model_without_layers_is_no_error() -> None:
    seen: list[tuple[int, int]] = []
    with PrefillWatch(Model(Module()), lambda done, total: seen.append((done, total))):
        pass
    assert seen == []
