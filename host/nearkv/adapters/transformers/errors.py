# SPDX-License-Identifier: Apache-2.0
"""What the adapter refuses, as errors that carry the data. All are UserError: nothing stored is lost or changed."""

from __future__ import annotations

from nearkv.errors import UserError


class UnsupportedFeature(UserError, NotImplementedError):
    """A model or a call asks for what the kernel or the store does not do; `feature` and `value` name it."""

    def __init__(self, feature: str, value: object, why: str) -> None:
        super().__init__(f"{feature} = {value!r} is not supported: {why}")
        self.feature, self.value = feature, value


class ContextTooLong(UserError):
    """A sequence would hold more `tokens` than the model's `limit`."""

    def __init__(self, tokens: int, limit: int) -> None:
        super().__init__(f"the context would be {tokens} tokens; the model's max_position_embeddings is {limit}")
        self.tokens, self.limit = tokens, limit


class ValueOutOfRange(UserError):
    """An element of K or V that FP16 cannot hold; `layer`, `tensor` ("K" or "V") and `value` say which."""

    def __init__(self, layer: int, tensor: str, value: float, where: str) -> None:
        super().__init__(f"layer {layer}: {tensor} holds {value!r} ({where}), outside FP16's range of -65504 to 65504")
        self.layer, self.tensor, self.value = layer, tensor, value
