# SPDX-License-Identifier: Apache-2.0
"""Convert a GGUF file into a transformers folder, once, in a cache keyed by the file's content. Loads nothing for use.

Two processes may convert the same file at once: each writes its own folder and renames it; the first rename wins and
the other copy is dropped. A folder under its final name is therefore always complete.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from pathlib import Path

import platformdirs

from nearkv.models.gguf import GGUF
from nearkv.models.gguf_llama import build_model
from nearkv.models.gguf_tokenizer import build_tokenizer
from nearkv.models.runtime import quiet_transformers

_CONVERTER = 1  # raise it when the converter's output changes: older cache folders are then not used


def converted_folder(path: Path, cache_dir: str | os.PathLike[str] | None = None) -> Path:
    """The folder with the converted form of the GGUF file at `path`; converts it if that has not been done.

    Raises ValueError for a damaged or unsupported file, and OSError that names the folder when it cannot be written.
    """
    root = (Path(cache_dir) if cache_dir is not None else platformdirs.user_cache_path("nearkv")) / "models"
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "blake2b").hexdigest()[:24]
    final = root / f"{path.stem}-{digest}-v{_CONVERTER}"
    if not final.is_dir():
        try:
            root.mkdir(parents=True, exist_ok=True)
            _convert(path, root, final)
        except OSError as error:
            reason = error.strerror or str(error)
            raise OSError(
                error.errno, f"cannot write the converted model: {reason}; choose another cache folder", str(root)
            ) from error
    return final


def _convert(path: Path, root: Path, final: Path) -> None:
    work = Path(tempfile.mkdtemp(prefix=f".{final.name}-", dir=root))
    try:
        with GGUF(path) as gguf:
            tokenizer = build_tokenizer(gguf)
            model = build_model(gguf)
        with quiet_transformers():
            tokenizer.save_pretrained(work)
            model.save_pretrained(work)
        work.chmod(0o755)
        try:
            work.rename(final)
        except OSError:
            if not final.is_dir():  # if it is there, another process was first
                raise
    finally:
        shutil.rmtree(work, ignore_errors=True)
