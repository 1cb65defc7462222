# SPDX-License-Identifier: Apache-2.0
"""The mask function: keeps transformers' request instead of building a [query, key] matrix. Decides nothing.

Without a mask function transformers passes no mask at all, and padding would be ignored in silence.
"""

from __future__ import annotations

from typing import Any

from nearkv.adapters.transformers.handle import MaskHandle


def near_mask(**request: Any) -> MaskHandle:
    """What transformers calls, by keyword, once per forward and mask kind; older versions send `cache_position`."""
    n_queries = request["q_length"] if "q_length" in request else len(request["cache_position"])
    return MaskHandle(request, int(n_queries))
