# SPDX-License-Identifier: Apache-2.0
"""Bad input: one line on stderr, exit code 2, and no file or folder made or changed.

What needs a loaded model runs in this process, through the same `main`, so that torch is imported once.
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from nearkv.cli import main
from nearkv.kvstore import KVStore
from nearkv.layout import ModelLayout

from tests.support.cli import run

GOOD = ("generate", "--prompt", "p", "--max-new-tokens", "2")


def tree(folder: Path) -> dict[str, bytes | None]:
    """Every path below the folder with a file's content, but for the folder that torch makes when it is imported."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in folder.rglob("*")
        if not path.name.startswith("torchinductor_")
    }


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """A folder with inputs of every bad kind, volumes/ for volumes, and tmp/ for temporary files."""
    (tmp_path / "volumes").mkdir()
    (tmp_path / "tmp").mkdir()
    (tmp_path / "folder").mkdir()
    (tmp_path / "notes.gguf").write_text("these are notes")
    (tmp_path / "short.gguf").write_bytes(b"GGUF")
    (tmp_path / "empty.gguf").write_bytes(b"")
    (tmp_path / "empty.txt").write_text("\n")
    (tmp_path / "latin.txt").write_bytes("caf\u00e9".encode("latin-1"))
    (tmp_path / "locked.txt").write_text("secret")
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ([*GOOD, "--model", "nosuch"], "nosuch"),
        ([*GOOD, "--model", "{work}/folder"], "config.json"),
        ([*GOOD, "--model", "{work}/notes.gguf"], "not a GGUF file"),
        ([*GOOD, "--model", "{work}/empty.gguf"], "not a GGUF file"),
        ([*GOOD, "--card", "nosuch:0"], "nosuch"),
        ([*GOOD, "--timing", "nosuch"], "no card is called 'nosuch'"),
        ([*GOOD, "--timing", "{work}/no.toml"], "no.toml"),
        ([*GOOD, "--timing", "smartssd", "--prompt-lookup", "3"], "leave out --prompt-lookup"),
        ([*GOOD, "--timing", "smartssd", "--session", "s"], "--timing does not go with --session"),
        ([*GOOD, "--card", "sw_emu"], "sw_emu"),
        ([*GOOD, "--card", "sw_emu:2?io=maybe"], "maybe"),
        ([*GOOD, "--card", "sw_emu:2?dram"], "dram"),
        ([*GOOD, "--card", "sw_emu:0"], "same card"),
        ([*GOOD, "--card", "sw_emu:2?ssd={work}/volumes/0"], "same volume folder"),
        (["generate"], "--prompt"),
        (["generate", "--prompt", ""], "empty"),
        (["generate", "--prompt", " \n"], "empty"),
        (["generate", "--prompt-file", "{work}/empty.txt"], "empty"),
        (["generate", "--prompt-file", "{work}/nosuch.txt"], "nosuch.txt"),
        (["generate", "--prompt-file", "{work}/folder"], "directory"),
        (["generate", "--prompt-file", "{work}/latin.txt"], "not UTF-8"),
        ([*GOOD, "--max-new-tokens", "0"], "--max-new-tokens"),
        ([*GOOD, "--max-new-tokens", "-1"], "--max-new-tokens"),
        ([*GOOD, "--threads", "0"], "--threads"),
        ([*GOOD, "--beams", "4"], "--beams"),
    ],
)
def test_refused_before_a_model_is_loaded(work: Path, arguments: list[str], named: str) -> None:
    before = tree(work)
    card = f"--card=sw_emu:0?ssd={work}/volumes/0"
    done = run(work / "tmp", *(part.replace("{work}", str(work)) for part in arguments), card)
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("nearkv: error: ")
    assert named in line
    assert tree(work) == before


def test_a_prompt_file_without_permission(work: Path) -> None:
    (work / "locked.txt").chmod(0)
    if os.access(work / "locked.txt", os.R_OK):
        pytest.skip("this user may read every file")
    done = run(work / "tmp", "generate", "--prompt-file", str(work / "locked.txt"))
    assert done.returncode == 2
    assert "locked.txt: Permission denied" in done.stderr


Refused = Callable[..., str]


@pytest.fixture
def refused(work: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Refused:
    """Runs the command in this process; returns its only line on stderr after seeing that nothing was touched."""
    monkeypatch.setenv("NEARKV_THREADS", "1")
    monkeypatch.setenv("TMPDIR", str(work / "tmp"))
    monkeypatch.setattr("tempfile.tempdir", None)

    def call(*arguments: str) -> str:
        capfd.readouterr()
        before = tree(work)
        code = main(list(arguments))
        out, err = capfd.readouterr()
        assert (code, out) == (2, "")
        (line,) = err.splitlines()
        assert line.startswith("nearkv: error: ")
        assert tree(work) == before
        text: str = line
        return text

    return call


def cards(work: Path, *options: str) -> list[str]:
    """Two cards whose volumes do not exist yet; the options go to the second."""
    more = "".join(f"&{option}" for option in options)
    return [f"--card=sw_emu:0?ssd={work}/volumes/0", f"--card=sw_emu:1?ssd={work}/volumes/1{more}"]


def test_a_damaged_gguf_file(work: Path, refused: Refused) -> None:
    assert "short.gguf" in refused(*GOOD, "--model", str(work / "short.gguf"), *cards(work))


def test_a_context_beyond_the_models_limit(work: Path, refused: Refused) -> None:
    line = refused("generate", "--prompt", "p", "--max-new-tokens", "8192", *cards(work))
    assert "8192 new ones" in line
    assert "limit is 8192" in line
    line = refused("generate", "--prompt", "word " * 9000, "--max-new-tokens", "1", *cards(work))
    assert "limit is 8192" in line


def test_an_option_that_the_card_does_not_know(work: Path, refused: Refused) -> None:
    assert "speed" in refused(*GOOD, *cards(work, "speed=9"))


def test_a_file_system_that_refuses_direct_io(work: Path, refused: Refused, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.open

    def no_direct(path: Any, flags: int, *rest: Any, **named: Any) -> int:
        if flags & os.O_DIRECT and str(work / "volumes" / "1") in os.fspath(path):
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), path)
        return real(path, flags, *rest, **named)

    monkeypatch.setattr(os, "open", no_direct)
    (work / "volumes" / "1").mkdir()
    line = refused(*GOOD, *cards(work))
    assert f"{work}/volumes/1" in line
    assert "io=buffered" in line


def test_a_temporary_folder_that_refuses_direct_io(
    work: Path, refused: Refused, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.open

    def no_direct(path: Any, flags: int, *rest: Any, **named: Any) -> int:
        if flags & os.O_DIRECT:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), path)
        return real(path, flags, *rest, **named)

    monkeypatch.setattr(os, "open", no_direct)
    line = refused(*GOOD)
    for way_out in ("TMPDIR", "ssd=FOLDER", "io=buffered"):
        assert way_out in line


def test_a_volume_folder_without_a_folder_above(work: Path, refused: Refused) -> None:
    assert "nosuch" in refused(*GOOD, f"--card=sw_emu:0?ssd={work}/nosuch/volume")


def test_a_volume_folder_that_is_a_file(work: Path, refused: Refused) -> None:
    assert "latin.txt" in refused(*GOOD, f"--card=sw_emu:0?ssd={work}/latin.txt")


@pytest.fixture(scope="module")
def smollm2_layout() -> ModelLayout:
    return ModelLayout("smollm2", layers=30, query_heads=9, kv_heads=3, head_size=64)


@pytest.mark.parametrize(
    ("field", "other"),
    [("model", "another"), ("layers", 31), ("head_size", 128), ("kv_heads", 1), ("dtype", "bfloat16")],
)
def test_a_volume_made_for_something_else(
    work: Path, refused: Refused, smollm2_layout: ModelLayout, field: str, other: object
) -> None:
    urls = [f"{option.removeprefix('--card=')}&kernel=model" for option in cards(work)]
    KVStore.open(smollm2_layout, urls).close()
    identity = work / "volumes" / "1" / "volume.json"
    found = json.loads(identity.read_text())
    identity.write_text(json.dumps({**found, field: other}))
    line = refused(*GOOD, *cards(work))
    assert f"{work}/volumes/1" in line
    for text in (field, repr(other), repr(found[field])):
        assert text in line


def test_an_attention_feature_that_the_kernel_lacks(
    work: Path, refused: Refused, tmp_path_factory: pytest.TempPathFactory
) -> None:
    transformers = pytest.importorskip("transformers")
    from nearkv.models.loading import load_model

    folder = tmp_path_factory.mktemp("capped")
    config = transformers.Gemma2Config(
        vocab_size=49152,
        hidden_size=64,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=64,
        attn_logit_softcapping=50.0,
    )
    transformers.Gemma2ForCausalLM(config).save_pretrained(folder)
    load_model("smollm2").tokenizer.save_pretrained(folder)
    line = refused(*GOOD, "--model", str(folder), *cards(work))
    assert "attn_logit_softcapping" in line
    assert "50.0" in line
