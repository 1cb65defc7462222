# SPDX-License-Identifier: Apache-2.0
"""Weights are told apart by what they are, not by how they are held."""

from __future__ import annotations

import pytest
import torch
from nearkv.models.fingerprint import model_fingerprint, weights_fingerprint
from nearkv.session.recorded_model import difference

from tests.support.tiny_models import CONFIGS, tiny_model


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


def test_a_model_is_like_itself_and_like_no_other_one() -> None:
    found = {name: model_fingerprint(tiny_model(name)) for name in CONFIGS}
    assert len(set(found.values())) == len(CONFIGS)
    for name, here in found.items():
        assert model_fingerprint(tiny_model(name)) == here
        assert difference(here, here) == difference(here[:32], here) == ""


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("llama group 3 d 64", {"rope_parameters": {"rope_type": "default", "rope_theta": 500000.0}}),
        ("llama group 3 d 64", {"rope_parameters": {"rope_type": "linear", "rope_theta": 10000.0, "factor": 4.0}}),
        ("llama group 3 d 64", {"rms_norm_eps": 1e-5}),
        ("llama group 3 d 64", {"hidden_act": "gelu"}),
        ("mistral window 7", {"sliding_window": 8}),
        ("gemma3 windows in some layers", {"query_pre_attn_scalar": 256}),
        ("gemma3 windows in some layers", {"layer_types": ["full_attention", "sliding_attention"]}),
        ("opt learned positions", {"activation_function": "gelu"}),
    ],
)
def test_the_same_weights_with_other_settings_are_another_model(name: str, changes: dict[str, object]) -> None:
    """All of these give other K and V."""
    one, other = model_fingerprint(tiny_model(name)), model_fingerprint(tiny_model(name, **changes))
    assert one[:32] == other[:32]
    assert difference(one, other).startswith("settings")
    assert difference(one[:32], other) == ""  # a session that does not record them


def test_a_number_is_the_same_however_it_is_written() -> None:
    found = [model_fingerprint(tiny_model("llama group 3 d 64", embedding_multiplier=n)) for n in (12, 12.0, 13)]
    assert found[0] == found[1] != found[2]


def test_other_weights_are_called_so() -> None:
    one, other = (model_fingerprint(tiny_model(name)) for name in ("llama group 3 d 64", "qwen3 d 128"))
    assert difference(one, other) == difference(one[:32], other) == "weights"
