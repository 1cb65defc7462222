# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from nearkv.errors import UserError
from nearkv.planner.models import ModelShape, find_model, from_config
from nearkv.planner.plan import notes
from nearkv.planner.system import NEARKV, Work

from tests.support.planning import system


def shape(**changes: Any) -> ModelShape:
    values = {"name": "m", "layers": 32, "hidden": 4096, "heads": 32, "kv_heads": 8, "head_size": 128}
    return ModelShape(**{**values, "intermediate": 14336, "vocab": 32000, **changes})


@pytest.mark.parametrize(
    ("model", "per_token", "total_gib"),
    [
        (shape(), 131072, 16),
        (shape(layers=64, hidden=5120, heads=64, head_size=128), 262144, 32),
        (shape(layers=30, hidden=576, heads=9, kv_heads=3, head_size=64), 23040, 2.8125),
    ],
)
def test_size_of_k_and_v(model: ModelShape, per_token: int, total_gib: float) -> None:
    assert model.kv_nbytes_per_token() == per_token
    assert model.kv_nbytes_per_token() * 131072 / 2**30 == total_gib
    told = model.kv_formula(131072, 1)
    assert f"= {per_token:g} bytes per token" in told
    assert f"= {total_gib:g} GiB" in told


@pytest.mark.parametrize("field", ["layers", "kv_heads", "head_size"])
def test_doubling_what_the_formula_names_doubles_it(field: str) -> None:
    once = shape(heads=64)
    assert shape(heads=64, **{field: 2 * getattr(once, field)}).kv_nbytes_per_token() == 2 * once.kv_nbytes_per_token()
    assert once.kv_nbytes_per_token(4) == 2 * once.kv_nbytes_per_token(2)


@pytest.mark.parametrize(
    ("name", "parameters_b"),
    [("opt-30b", 30), ("opt-66b", 66), ("opt-175b", 175), ("llama-3-8b", 8.03), ("llama-3-70b", 70.6),
     ("qwen2.5-32b", 32.8), ("mixtral-8x7b", 46.7), ("smollm2-135m", 0.1345), ("Llama-2-7B", 6.74)],
)  # fmt: skip
def test_known_models_have_the_parameters_of_their_names(name: str, parameters_b: float) -> None:
    assert abs(find_model(name).parameters / 1e9 / parameters_b - 1) < 0.01


def test_a_config_folder(tmp_path: Path) -> None:
    config = {
        "model_type": "llama", "hidden_size": 576, "num_hidden_layers": 30, "num_attention_heads": 9,
        "num_key_value_heads": 3, "intermediate_size": 1536, "vocab_size": 49152, "tie_word_embeddings": True,
    }  # fmt: skip
    (tmp_path / "config.json").write_text(json.dumps(config))
    found = find_model(str(tmp_path))
    known = find_model("smollm2-135m")
    assert (found.kv_nbytes_per_token(), found.parameters) == (known.kv_nbytes_per_token(), known.parameters)
    (tmp_path / "config.json").write_text(json.dumps({"vision": {}, "text_config": config}))
    assert find_model(str(tmp_path)).parameters == known.parameters


def test_an_explicit_head_size_counts(tmp_path: Path) -> None:
    config = {"hidden_size": 5120, "num_hidden_layers": 64, "num_attention_heads": 64, "num_key_value_heads": 8}
    more = {"head_dim": 128, "intermediate_size": 25600, "vocab_size": 151936}
    assert from_config({**config, **more}, "m").kv_nbytes_per_token() == 262144


@pytest.mark.parametrize(
    ("config", "named"),
    [
        ({}, "lacks num_hidden_layers, hidden_size"),
        ([], "an object is expected"),
        ({"num_hidden_layers": -1}, "layers is -1"),
        ({"num_hidden_layers": "many"}, "layers is 'many'"),
        ({"num_hidden_layers": 2.5}, "layers is 2.5"),
        ({"num_hidden_layers": 5000}, "layers is 5000; a whole number from 1 to 4096"),
        ({"num_attention_heads": 0}, "heads is 0"),
        ({"num_attention_heads": 24}, "hidden = 4096 is no multiple of heads = 24, and there is no head_dim"),
        ({"num_key_value_heads": 5}, "heads = 32 is no multiple of kv_heads = 5"),
        ({"num_local_experts": 2, "num_experts_per_tok": 3}, "active_experts = 3 of 2"),
        ({"vocab_size": 10**12}, "vocab is 1000000000000"),
        ({"model_type": [], "vocab_size": 0}, "vocab is 0"),
        ({"kv_lora_rank": 512}, "kv_lora_rank is 512"),
        ({"layer_types": ["full_attention", "linear_attention"]}, "layer_types has 'linear_attention'"),
        ({"sliding_window": -1}, "window is -1"),
        ({"num_experts": 4, "shared_expert_intermediate_size": "x"}, "shared is 'x'"),
    ],
)
def test_bad_configurations_are_refused_by_name(tmp_path: Path, config: Any, named: str) -> None:
    good = {"hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32, "vocab_size": 32000}
    whole = {**good, **config} if config else config
    (tmp_path / "config.json").write_text(json.dumps(whole))
    with pytest.raises(UserError, match=named):
        find_model(str(tmp_path))


def test_no_such_model(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no model is called 'nosuch'; known: .*opt-66b"):
        find_model("nosuch")
    with pytest.raises(UserError, match="No such file"):
        find_model(str(tmp_path))
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(UserError, match="not JSON"):
        find_model(str(tmp_path))


@pytest.mark.timeout(20)
def test_what_is_no_file_is_refused_without_reading(tmp_path: Path) -> None:
    """A pipe that nobody writes to would wait for ever."""
    os.mkfifo(tmp_path / "config.json")
    (tmp_path / "device.json").symlink_to("/dev/zero")
    for name in (tmp_path, tmp_path / "device.json"):
        with pytest.raises(UserError, match=r"model configuration .*\.json is no regular file"):
            find_model(str(name))
    with pytest.raises(UserError, match="cannot be read"):
        find_model("nul\0.json")


def test_experts_that_a_batch_needs() -> None:
    mixtral = find_model("mixtral-8x7b")
    assert mixtral.loaded_experts(1) == 2
    assert 7.8 < mixtral.loaded_experts(16) < 8
    assert shape().loaded_experts(1) == 1


@pytest.mark.parametrize(
    ("config", "billions", "active"),
    [
        # Qwen1.5-MoE-A2.7B, Qwen2-57B-A14B and DeepSeek-MoE-16B: parameters, and those that a token uses.
        ({"model_type": "qwen2_moe", "hidden_size": 2048, "num_hidden_layers": 24, "num_attention_heads": 16,
          "num_key_value_heads": 16, "intermediate_size": 5632, "moe_intermediate_size": 1408, "num_experts": 60,
          "shared_expert_intermediate_size": 5632, "num_experts_per_tok": 4, "vocab_size": 151936}, 14.3, 2.7),
        ({"model_type": "qwen2_moe", "hidden_size": 3584, "num_hidden_layers": 28, "num_attention_heads": 28,
          "num_key_value_heads": 4, "intermediate_size": 18944, "moe_intermediate_size": 2560, "num_experts": 64,
          "shared_expert_intermediate_size": 20480, "num_experts_per_tok": 8, "vocab_size": 151936}, 57.4, 14),
        ({"model_type": "deepseek", "hidden_size": 2048, "num_hidden_layers": 28, "num_attention_heads": 16,
          "num_key_value_heads": 16, "intermediate_size": 10944, "moe_intermediate_size": 1408, "n_routed_experts": 64,
          "n_shared_experts": 2, "num_experts_per_tok": 6, "vocab_size": 102400}, 16.4, 2.8),
    ],
)  # fmt: skip
def test_experts_that_all_tokens_share_count(config: dict[str, Any], billions: float, active: float) -> None:
    model = from_config({**config, "tie_word_embeddings": False}, "m")
    assert abs(model.parameters / 1e9 / billions - 1) < 0.04
    used = model.attention_parameters + model.shared_parameters + model.active_experts * model.expert_parameters
    assert abs((model.layers * used + model.embedding_parameters) / 1e9 / active - 1) < 0.08


def test_windows_are_told_where_they_matter() -> None:
    config = {"hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32, "vocab_size": 32000}
    mistral = from_config({**config, "sliding_window": 4096}, "mistral")
    assert notes(system(), Work(mistral, 4032), NEARKV) == []
    assert "mistral that look back 4096 tokens read less" in notes(system(), Work(mistral, 4096), NEARKV)[0]
    assert from_config({**config, "sliding_window": 4096, "use_sliding_window": False}, "qwen").window == 0


@pytest.mark.parametrize(
    ("config", "kv_heads"),
    [
        ({"model_type": "falcon", "multi_query": True}, 1),
        ({"model_type": "falcon", "multi_query": False}, 32),
        ({"model_type": "falcon", "new_decoder_architecture": True, "multi_query": True, "num_kv_heads": 8}, 8),
        ({"model_type": "gpt_bigcode", "multi_query": True}, 1),
        ({"model_type": "llama"}, 32),
    ],
)
def test_kv_heads_under_the_names_of_older_models(config: dict[str, Any], kv_heads: int) -> None:
    shape = {"hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32, "vocab_size": 32000}
    assert from_config({**shape, **config}, "m").kv_heads == kv_heads


def test_experts_have_a_width_of_their_own() -> None:
    """Qwen3-30B-A3B: 30.5 billion parameters, with experts of 768 beside an intermediate_size of 6144."""
    config = {
        "model_type": "qwen3_moe", "hidden_size": 2048, "num_hidden_layers": 48, "num_attention_heads": 32,
        "num_key_value_heads": 4, "head_dim": 128, "vocab_size": 151936, "intermediate_size": 6144,
        "moe_intermediate_size": 768, "num_experts": 128, "num_experts_per_tok": 8, "tie_word_embeddings": False,
    }  # fmt: skip
    assert from_config(config, "m").parameters / 1e9 == pytest.approx(30.5, rel=0.01)


def test_a_folder_is_named_where_it_lies_and_a_long_name_is_no_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "config.json").write_text('{"num_hidden_layers": 1}')
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=f"^{tmp_path.name}: the configuration lacks"):
        find_model(".")
    with pytest.raises(UserError, match="no model is called 'aaa"):
        find_model("a" * 5000)
