# SPDX-License-Identifier: Apache-2.0
"""torch's threads and transformers' chatter, set for a while and put back. Knows nothing of models or cards."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from logging import CRITICAL
from typing import Any


@contextmanager
def torch_threads(count: int | None) -> Iterator[None]:
    """`count` threads for torch's arithmetic inside; None changes nothing.

    More threads than free CPUs make torch many times slower: its threads wait by spinning.
    """
    import torch

    before = torch.get_num_threads()
    try:
        if count is not None:
            torch.set_num_threads(count)
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def quiet_transformers() -> Iterator[None]:
    """No progress bars and no advice from transformers inside; its errors are exceptions all the same."""
    from transformers.utils import logging as untyped

    logging: Any = untyped
    verbosity, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    try:
        logging.set_verbosity(CRITICAL)
        logging.disable_progress_bar()
        yield
    finally:
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()
