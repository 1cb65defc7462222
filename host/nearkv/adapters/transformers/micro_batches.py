# SPDX-License-Identifier: Apache-2.0
"""Decode steps in several parts of the batch: while the cards attend for one, the model computes for another.

Each part is a forward of its own, in a thread of its own, on the same weights. Prefill and everything that does not run
on the cards is left whole. Rows do not see each other in a decoder, so tokens are those of the whole batch.
"""

from __future__ import annotations

import contextvars
import functools
from collections.abc import Sequence
from types import TracebackType
from typing import Any

import torch
from nearkv_driver.regmap import ROWS_MAX
from nearkv_driver.work_threads import Call, WorkThreads

from nearkv.adapters.transformers.cache import CachePart, NearStorageCache
from nearkv.adapters.transformers.engines import Engine, engine_for
from nearkv.adapters.transformers.turns import Turns
from nearkv.errors import UserError

_BY_ROW = ("input_ids", "inputs_embeds", "attention_mask", "position_ids", "token_type_ids")


class MicroBatches:
    """While open, decode steps of `model` on `cache` run in `count` parts; 1 changes nothing. A context manager."""

    def __init__(self, model: Any, cache: NearStorageCache, count: int) -> None:
        if count < 1:
            raise UserError(f"micro_batches = {count}; at least 1 is expected")
        self._model, self._cache, self._count = model, cache, count
        self._threads = WorkThreads("micro-batch", count)
        self.steps = 0

    def __enter__(self) -> MicroBatches:
        self._had_own = "forward" in vars(self._model)
        self._whole = self._model.forward
        if self._count > 1:

            @functools.wraps(self._whole)  # generate() looks at its signature
            def forward(*args: Any, **kwargs: Any) -> Any:
                return self._forward(*args, **kwargs)

            self._model.forward = forward
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._count > 1:
            if self._had_own:
                self._model.forward = self._whole
            else:
                del self._model.forward
        self._threads.close()

    def _forward(self, *args: Any, **kwargs: Any) -> Any:
        rows = self._rows(args, kwargs)
        if rows < 2:
            return self._whole(*args, **kwargs)
        count = min(self._count, rows)
        slices = [slice(rows * i // count, rows * (i + 1) // count) for i in range(count)]
        turns = Turns()
        parts = self._cache.split(slices, turns.cards)
        name = "cache" if "cache" in kwargs else "past_key_values"
        inputs = [{**_slice(kwargs, part, rows), name: cache} for part, cache in zip(slices, parts, strict=True)]
        try:
            outputs = self._run(inputs, turns)
        except BaseException:
            self._cache.undo()
            raise
        self._cache.join(parts)
        self.steps += 1
        return _merge(outputs, parts, self._cache)

    def _rows(self, args: Sequence[Any], kwargs: dict[str, Any]) -> int:
        """Rows of a decode step that can be cut; 0 for any other forward."""
        given = kwargs.get("cache", kwargs.get("past_key_values"))
        tokens = kwargs.get("input_ids") if kwargs.get("inputs_embeds") is None else kwargs["inputs_embeds"]
        mask = kwargs.get("attention_mask")
        if args or given is not self._cache or not isinstance(tokens, torch.Tensor):
            return 0
        rows, n = tokens.shape[:2]
        plain = mask is None or (isinstance(mask, torch.Tensor) and mask.dim() == 2 and mask.shape[0] == rows)
        extra = any(kwargs.get(x) for x in ("output_attentions", "output_hidden_states", "labels"))
        on_cards = self._cache.get_seq_length() > 0 and n * self._cache.layout.group <= ROWS_MAX
        whole = kwargs.get("return_dict") is False or self._cache.batch_size != rows
        return int(rows) if plain and on_cards and not extra and not whole else 0

    def _run(self, inputs: Sequence[dict[str, Any]], turns: Turns) -> list[Any]:
        """Outputs of all parts; every part has ended when this returns or raises."""
        engine = engine_for(next(self._model.parameters()).device)
        modes = torch.is_grad_enabled(), torch.is_inference_mode_enabled()
        begin = engine.mark()
        jobs: list[Call[tuple[Any, Any]]] = [
            Call(functools.partial(contextvars.copy_context().run, self._part, one, turns, engine, begin, modes))
            for one in inputs
        ]
        self._threads.finish(jobs)  # after Ctrl-C too no part goes on behind the caller's back
        errors = [error for job in jobs if (error := job.error()) is not None]
        if errors:
            for other in errors[1:]:
                errors[0].add_note(f"also: {other}")
            try:
                raise errors[0]
            finally:
                del errors[:], jobs[:]  # the error's traceback has this frame, and with it the model and the cache
        outputs = []
        for job in jobs:
            output, end = job.wait()
            engine.join(end, [x for x in output.values() if isinstance(x, torch.Tensor)])
            outputs.append(output)
        return outputs

    def _part(
        self, inputs: dict[str, Any], turns: Turns, engine: Engine, begin: Any, modes: tuple[bool, bool]
    ) -> tuple[Any, Any]:
        grad, inference = modes
        with (
            turns.compute(),
            engine.lane(begin),
            torch.inference_mode(inference),
            torch.set_grad_enabled(grad),
        ):
            output = self._whole(**inputs)
            return output, engine.mark()


def _slice(kwargs: dict[str, Any], part: slice, rows: int) -> dict[str, Any]:
    """The arguments with those that have a row per sequence cut."""
    return {
        name: value[part] if name in _BY_ROW and isinstance(value, torch.Tensor) and value.shape[0] == rows else value
        for name, value in kwargs.items()
    }


def _merge(outputs: Sequence[Any], parts: Sequence[CachePart], cache: NearStorageCache) -> Any:
    """One output for all rows, which names the whole cache."""
    merged: dict[str, Any] = {}
    for name, value in outputs[0].items():
        if value is parts[0]:
            merged[name] = cache
        elif isinstance(value, torch.Tensor) and value.dim() > 0:
            merged[name] = torch.cat([output[name] for output in outputs])
        else:
            merged[name] = value
    return type(outputs[0])(**merged)
