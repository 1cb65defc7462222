# SPDX-License-Identifier: Apache-2.0
"""torch's device and threads, and transformers' chatter, set for a while and put back. Knows no model and no card."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from logging import CRITICAL
from typing import Any

DEVICES = ("auto", "cpu", "cuda")


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


def find_device(name: str) -> str:
    """Where the model computes, "cpu" or "cuda"; "auto" takes CUDA where it is. ValueError says what is missing."""
    if name not in DEVICES:
        raise ValueError(f"device {name!r}; accepted: {', '.join(DEVICES)}")
    if name == "cpu":
        return name
    import torch

    if torch.cuda.is_available():
        return "cuda"
    if name == "cuda":
        why = "finds no GPU" if torch.version.cuda else "was built without CUDA"
        raise ValueError(f"device 'cuda': torch {torch.__version__} {why}; use 'cpu' or 'auto'")
    return "cpu"


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
        if not sys.is_finalizing():  # what was left open when Python ends; transformers would import something
            logging.set_verbosity(verbosity)
            if bars:
                logging.enable_progress_bar()
