# SPDX-License-Identifier: Apache-2.0
"""A tiny model with random weights and a real tokenizer, as a folder that `load_model` reads. It talks nonsense."""

from __future__ import annotations

from pathlib import Path

import torch
from nearkv.models.gguf import GGUF
from nearkv.models.gguf_tokenizer import build_tokenizer
from transformers import LlamaConfig
from transformers.models.auto.modeling_auto import AutoModelForCausalLM

from tests.support.gguf_files import gguf_bytes, tokenizer_fields

TEMPLATE = (
    "{% for m in messages %}[{{ m['role'] }}]{{ m['content'] }}{{ eos_token }}{% endfor %}"
    "{% if add_generation_prompt %}[assistant]{% endif %}"
)


def tiny_folder(folder: Path, seed: int = 7) -> Path:
    """Two layers, 4 query heads on 2 KV heads of 64, mostly byte tokens; it never ends a text. `folder` is made."""
    folder.mkdir()
    fields = tokenizer_fields()
    (folder / "tokenizer.gguf").write_bytes(gguf_bytes(fields, {}))
    with GGUF(folder / "tokenizer.gguf") as gguf:
        tokenizer = build_tokenizer(gguf)
    tokenizer.chat_template = TEMPLATE
    config = LlamaConfig(
        vocab_size=len(fields["tokenizer.ggml.tokens"]),
        hidden_size=64,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=64,
        max_position_embeddings=4096,
        initializer_range=0.4,
        bos_token_id=0,
        eos_token_id=len(fields["tokenizer.ggml.tokens"]) + 1,
        pad_token_id=0,
    )
    torch.manual_seed(seed)
    AutoModelForCausalLM.from_config(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
