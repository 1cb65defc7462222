# SPDX-License-Identifier: Apache-2.0
"""The name under which a transformers model takes its cache. Imports nothing of transformers."""

from __future__ import annotations

import inspect
from typing import Any


def cache_keyword(network: Any) -> str:
    """transformers renamed it in 5.24 and warns of the old name."""
    return "cache" if "cache" in inspect.signature(network.forward).parameters else "past_key_values"
