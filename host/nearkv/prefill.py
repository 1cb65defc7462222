# SPDX-License-Identifier: Apache-2.0
"""How far a prefill is, by layers. It watches the model's modules and changes nothing in them."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Any

OnPrefill = Callable[[int, int], None]


class PrefillWatch:
    """While open, calls `on_layer(done, total)` after each layer's attention, first with 0 done.

    A layer is told by the attribute `layer_idx` that transformers gives the modules that use the KV cache. `stop`
    ends the watch and may be called again; leaving the context stops it too.
    """

    def __init__(self, model: Any, on_layer: OnPrefill) -> None:
        self._on_layer = on_layer
        modules = [(module, module.layer_idx) for module in model.modules() if _has_layer(module)]
        self._total = len({layer for _, layer in modules})
        self._done: set[int] = set()
        self._hooks: list[Any] = []
        self._modules = modules

    def stop(self) -> None:
        for hook in self._hooks:
            hook.remove()
        self._hooks.clear()

    def __enter__(self) -> PrefillWatch:
        for module, layer in self._modules:
            self._hooks.append(module.register_forward_hook(self._hook(layer)))
        if self._total:
            self._on_layer(0, self._total)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _hook(self, layer: int) -> Callable[..., None]:
        def after(*_: Any) -> None:
            if layer not in self._done:
                self._done.add(layer)
                self._on_layer(len(self._done), self._total)

        return after


def _has_layer(module: Any) -> bool:
    return isinstance(getattr(module, "layer_idx", None), int)
