# SPDX-License-Identifier: Apache-2.0
"""The device is what was asked for or a refusal that says what is missing."""

from __future__ import annotations

import pytest
import torch
from nearkv.models.runtime import find_device


@pytest.mark.parametrize(
    ("gpu", "name", "found"), [(True, "auto", "cuda"), (False, "auto", "cpu"), (True, "cpu", "cpu")]
)
def test_auto_takes_a_gpu_where_there_is_one(monkeypatch: pytest.MonkeyPatch, gpu: bool, name: str, found: str) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: gpu)
    assert find_device(name) == found


@pytest.mark.parametrize(("built", "text"), [(True, "finds no GPU"), (False, "was built without CUDA")])
def test_cuda_without_a_gpu_says_why(monkeypatch: pytest.MonkeyPatch, built: bool, text: str) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.version, "cuda", "13.0" if built else None)
    with pytest.raises(ValueError, match=f"device 'cuda': torch .* {text}"):
        find_device("cuda")


def test_an_unknown_device_lists_the_known_ones() -> None:
    with pytest.raises(ValueError, match="device 'tpu'; accepted: auto, cpu, cuda"):
        find_device("tpu")
