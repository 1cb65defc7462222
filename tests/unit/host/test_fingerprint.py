# SPDX-License-Identifier: Apache-2.0
"""Weights are told apart by what they are, not by how they are held."""

from __future__ import annotations

import torch
from nearkv.models.fingerprint import weights_fingerprint


def network(seed: int = 1) -> torch.nn.Module:
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(100, 70), torch.nn.Linear(70, 3)).to(torch.bfloat16)


def test_the_same_values_in_another_type_are_the_same() -> None:
    assert weights_fingerprint(network()) == weights_fingerprint(network().float())


def test_other_values_names_and_shapes_are_not() -> None:
    scaled = network()
    with torch.no_grad():
        scaled[1].weight *= 1.01
    others = [network(2), scaled, torch.nn.Sequential(*network(), torch.nn.ReLU()), torch.nn.Sequential(network())]
    found = [weights_fingerprint(other) == weights_fingerprint(network()) for other in others]
    assert found == [False, False, True, False]  # a layer without weights has none to tell
