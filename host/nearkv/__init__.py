# SPDX-License-Identifier: Apache-2.0
"""Near-data attention: decoder LLMs whose KV cache lives on computational storage. Importing it loads no torch."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nearkv.adapters.transformers import NearStorageCache
    from nearkv.session.chat import Session

__all__ = ["NearStorageCache", "Session"]


def __getattr__(name: str) -> Any:
    """Import what needs torch and transformers when it is first asked for. ModuleNotFoundError says how to get them."""
    if name == "NearStorageCache":
        try:
            from nearkv.adapters.transformers import NearStorageCache
        except ModuleNotFoundError as error:
            missing = (error.name or "").partition(".")[0]
            if missing not in ("torch", "transformers"):
                raise
            text = f"NearStorageCache needs {missing}, which is not installed: pip install 'nearkv[torch]'"
            raise ModuleNotFoundError(text, name=error.name) from error

        return NearStorageCache
    if name == "Session":
        from nearkv.session.chat import Session

        return Session
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
