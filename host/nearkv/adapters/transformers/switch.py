# SPDX-License-Identifier: Apache-2.0
"""Register nearkv's functions with transformers and switch a config to them and back. Touches no model.

transformers looks the attention function up by the name that the *config object* holds. While at least one cache is
open for a config, that name is ours; the count and the name before it travel with the value, so nothing is kept
elsewhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nearkv.adapters.transformers.attention import near_attention
from nearkv.adapters.transformers.mask import near_mask

if TYPE_CHECKING:
    from transformers import PreTrainedConfig

NAME = "nearkv"


class _Switched(str):
    """The name, with the implementation to go back to and the number of open caches."""

    before: str | None
    users: int

    def __new__(cls, before: str | None) -> _Switched:
        made = super().__new__(cls, NAME)
        made.before, made.users = before, 0
        return made


def register() -> None:
    """Make the functions known under NAME; repeating it changes nothing."""
    from transformers import AttentionInterface, AttentionMaskInterface

    attention: Any = AttentionInterface
    masks: Any = AttentionMaskInterface
    attention.register(NAME, near_attention)
    masks.register(NAME, near_mask)


def switch_on(config: PreTrainedConfig) -> None:
    """From now on models built on this config object call near_attention."""
    current: Any = config._attn_implementation
    if not isinstance(current, _Switched):
        current = _Switched(current)
        config._attn_implementation = current
    current.users += 1


def switch_off(config: PreTrainedConfig) -> None:
    """Undo one switch_on; the last one puts the implementation back, unless somebody has set another since."""
    current: Any = config._attn_implementation
    if isinstance(current, _Switched):
        current.users -= 1
        if current.users == 0:
            config._attn_implementation = current.before
