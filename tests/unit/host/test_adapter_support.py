# SPDX-License-Identifier: Apache-2.0
"""What a config must not ask for: each refusal names field and value, and comes before any card is opened."""

from __future__ import annotations

from typing import Any

import pytest
import transformers
from nearkv import NearStorageCache
from nearkv.adapters.transformers import UnsupportedFeature
from nearkv.adapters.transformers.support import check_config

from tests.support.attention import config
from tests.support.tiny_models import CONFIGS


def small(name: str, **fields: Any) -> Any:
    """A config of the named class; a model is never built from it."""
    return getattr(transformers, name)(**fields)


REFUSED: dict[str, tuple[Any, str]] = {
    "soft cap": (lambda: small("Gemma2Config"), "attn_logit_softcapping = 50.0"),
    "sinks": (lambda: small("GptOssConfig"), "model_type = 'gpt_oss'"),
    "alibi field": (lambda: small("FalconConfig", alibi=True), "alibi = True"),
    "alibi model": (lambda: small("BloomConfig"), "model_type = 'bloom'"),
    "alibi model, other config": (lambda: small("MptConfig"), "model_type = 'mpt'"),
    "own attention code": (lambda: small("FalconConfig", alibi=False), "model_type = 'falcon'"),
    "latent attention": (lambda: small("DeepseekV3Config"), r"kv_lora_rank = 512.*K has 192.*V has 128"),
    "position bias": (lambda: small("T5Config"), "is_encoder_decoder = True"),
    "chunked": (lambda: small("Llama4TextConfig"), r"layer_types = \['chunked_attention'\]"),
    "linear": (lambda: small("Qwen3NextConfig"), r"layer_types = \['linear_attention'\]"),
    "shared K and V": (lambda: small("Gemma3nTextConfig"), "num_kv_shared_layers = 15"),
    "head size": (lambda: config(4, 2, 72), "head_dim = 72.*64, 80, 96, 112, 128, 256"),
    "group": (lambda: config(130, 2, 64), "num_key_value_heads = 2.*65 query heads"),
    "heads": (lambda: config(5, 2, 64), "num_key_value_heads = 2.*num_attention_heads = 5"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_by_field_and_value(name: str) -> None:
    make, text = REFUSED[name]
    made = make()
    before = made._attn_implementation
    with pytest.raises(UnsupportedFeature, match=text):
        NearStorageCache(made, ["no-such-scheme:0"])
    assert made._attn_implementation == before


@pytest.mark.parametrize("name", CONFIGS)
def test_supported_shapes(name: str) -> None:
    made = CONFIGS[name]()
    facts = check_config(made, "some model")
    assert (facts.layout.model, facts.layout.layers) == ("some model", 2)
    assert facts.layout.query_heads == made.num_attention_heads
    assert facts.max_positions == 512


def test_the_layout_takes_its_name_from_the_config() -> None:
    made = config(4, 2, 64)
    assert check_config(made).layout.model == "llama"
    made._name_or_path = "owner/name"
    assert check_config(made).layout.model == "owner/name"
    made._name_or_path = "/somewhere/a-model"
    assert check_config(made).layout.model == "a-model"
    assert check_config(small("GPTBigCodeConfig", n_embd=128, n_head=2, multi_query=True)).layout.kv_heads == 1
