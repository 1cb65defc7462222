# SPDX-License-Identifier: Apache-2.0
"""Hypothesis for all tests: the same examples each time, and no limit of time that a busy machine would break. And what
tests of several folders ask for: one thread of torch, a file system without O_DIRECT."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from nearkv.models.runtime import torch_threads

settings.register_profile("nearkv", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("nearkv")


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Torch computes in the calling thread."""
    with torch_threads(1):
        yield


@pytest.fixture
def no_direct_io(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file system that refuses O_DIRECT, as ramfs does."""
    real = os.open

    def refuse(path: Any, flags: int, *rest: Any, **named: Any) -> int:
        if flags & os.O_DIRECT:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), path)
        return real(path, flags, *rest, **named)

    monkeypatch.setattr(os, "open", refuse)
