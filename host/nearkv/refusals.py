# SPDX-License-Identifier: Apache-2.0
"""What libraries raise for bad input, as UserError with the same text. Catches nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from nearkv.errors import UserError, one_line

_MODEL_PACKAGES = ("torch", "transformers", "safetensors", "tokenizers")


@contextmanager
def refusing() -> Iterator[None]:
    """What libraries raise for a bad model, prompt or URL becomes a UserError with the same text."""
    try:
        yield
    except UserError:
        raise
    except (ValueError, NotImplementedError, OSError) as error:
        raise UserError(one_line(error)) from error
    except ModuleNotFoundError as error:
        if error.name not in _MODEL_PACKAGES:
            raise
        raise UserError(f"the model needs {error.name}, which is not installed: pip install 'nearkv[torch]'") from error
