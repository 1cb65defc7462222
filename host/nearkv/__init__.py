# SPDX-License-Identifier: Apache-2.0
"""Near-data attention: decoder LLMs whose KV cache lives on computational storage. Importing it loads no torch."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nearkv.adapters.transformers import NearStorageCache
    from nearkv.session.chat import Session

__all__ = ["NearStorageCache", "Session"]


def __getattr__(name: str) -> Any:
    """Import what needs torch and transformers when it is first asked for."""
    if name == "NearStorageCache":
        from nearkv.adapters.transformers import NearStorageCache

        return NearStorageCache
    if name == "Session":
        from nearkv.session.chat import Session

        return Session
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
