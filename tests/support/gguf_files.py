# SPDX-License-Identifier: Apache-2.0
"""Write small GGUF files, whole ones and damaged ones, with nothing taken from the reader under test."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

Tensor = tuple[tuple[int, ...], int, bytes]  # shape (slowest axis first), type code, bytes

U32, I32, F32_FIELD, BOOL, STRING, ARRAY, U64 = 4, 5, 6, 7, 8, 9, 10


def text(value: str | bytes) -> bytes:
    raw = value.encode() if isinstance(value, str) else value
    return struct.pack("<Q", len(raw)) + raw


def field(value: Any) -> bytes:
    """Type code and value of a field: int, float, bool, text, list of texts or an int32 array."""
    if isinstance(value, bool):
        return struct.pack("<I?", BOOL, value)
    if isinstance(value, int):
        return struct.pack("<II", U32, value)
    if isinstance(value, float):
        return struct.pack("<If", F32_FIELD, value)
    if isinstance(value, str):
        return struct.pack("<I", STRING) + text(value)
    if isinstance(value, np.ndarray):
        return struct.pack("<IIQ", ARRAY, I32, len(value)) + value.astype("<i4").tobytes()
    return struct.pack("<IIQ", ARRAY, STRING, len(value)) + b"".join(text(item) for item in value)


def gguf_bytes(
    fields: Mapping[str, Any],
    tensors: Mapping[str, Tensor],
    *,
    version: int = 3,
    n_tensors: int | None = None,
    n_fields: int | None = None,
    align: int = 32,
) -> bytes:
    """A file; `n_tensors` and `n_fields` can lie about the counts."""
    head = b"GGUF" + struct.pack("<I", version)
    head += struct.pack("<Q", len(tensors) if n_tensors is None else n_tensors)
    head += struct.pack("<Q", len(fields) if n_fields is None else n_fields)
    for name, value in fields.items():
        head += text(name) + field(value)
    data = b""
    for name, (shape, kind, raw) in tensors.items():
        data += bytes(-len(data) % align)
        head += text(name) + struct.pack("<I", len(shape)) + struct.pack(f"<{len(shape)}Q", *shape[::-1])
        head += struct.pack("<IQ", kind, len(data))
        data += raw
    return head + bytes(-len(head) % align) + data


def f32(shape: Sequence[int], rng: np.random.Generator) -> Tensor:
    values = (rng.standard_normal(tuple(shape)) * 0.1).astype("<f4")
    return tuple(shape), 0, values.tobytes()


# a byte-level vocabulary: 256 byte tokens, a few merges, one special token
def _byte_letters() -> list[str]:
    printable = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    letters, extra = [], 0
    for byte in range(256):
        if byte in printable:
            letters.append(chr(byte))
        else:
            letters.append(chr(256 + extra))
            extra += 1
    return letters


def tokenizer_fields(pre: str = "smollm") -> dict[str, Any]:
    letters = _byte_letters()
    merges = ["t h", "th e", "1 2", f"{letters[32]} the"]
    tokens = ["<|end|>", *letters, *(merge.replace(" ", "") for merge in merges)]
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": pre,
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": np.array([3] + [1] * (len(tokens) - 1)),
        "tokenizer.ggml.merges": merges,
        "tokenizer.ggml.bos_token_id": 0,
        "tokenizer.ggml.eos_token_id": 0,
        "tokenizer.ggml.padding_token_id": 0,
        "tokenizer.chat_template": "{% for m in messages %}[{{ m['role'] }}] {{ m['content'] }}{% endfor %}",
    }


def llama_file(
    rng: np.random.Generator, *, tied: bool = True, **changes: Any
) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Fields and tensors of a llama of 2 layers, 4 query heads on 2 KV heads of 8; `changes` replace fields."""
    hidden, mlp, heads, kv_heads, d = 32, 48, 4, 2, 8
    names = tokenizer_fields()
    vocabulary = len(names["tokenizer.ggml.tokens"])
    fields = {
        "general.architecture": "llama",
        "llama.block_count": 2,
        "llama.context_length": 128,
        "llama.embedding_length": hidden,
        "llama.feed_forward_length": mlp,
        "llama.attention.head_count": heads,
        "llama.attention.head_count_kv": kv_heads,
        "llama.attention.layer_norm_rms_epsilon": 1e-5,
        "llama.rope.dimension_count": d,
        "llama.rope.freq_base": 5000.0,
        **names,
        **changes,
    }
    tensors = {"token_embd.weight": f32((vocabulary, hidden), rng), "output_norm.weight": f32((hidden,), rng)}
    if not tied:
        tensors["output.weight"] = f32((vocabulary, hidden), rng)
    shapes = {
        "attn_norm": (hidden,),
        "ffn_norm": (hidden,),
        "attn_q": (heads * d, hidden),
        "attn_k": (kv_heads * d, hidden),
        "attn_v": (kv_heads * d, hidden),
        "attn_output": (hidden, heads * d),
        "ffn_gate": (mlp, hidden),
        "ffn_up": (mlp, hidden),
        "ffn_down": (hidden, mlp),
    }
    for layer in range(2):
        for name, shape in shapes.items():
            tensors[f"blk.{layer}.{name}.weight"] = f32(shape, rng)
    return fields, tensors
