# SPDX-License-Identifier: Apache-2.0
"""The command in its own process: real text from two emulated cards, figures that hold, and nothing left behind."""

from __future__ import annotations

import json
import runpy
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from nearkv.cli import main
from nearkv.models.runtime import torch_threads
from nearkv_emulation.rtl_build import library

from tests.support.cli import ROOT, TIMEOUT_S, command, environment, run, run_command, start
from tests.support.rtl_tools import needs_verilator, patient

PARIS = "What is the capital of France?"
# SmolLM2-135M: layers, query heads, KV heads, head size; FP32 q and O, FP16 K and V, 8 bytes of L and T
LAYERS, HQ, HKV, D = 30, 9, 3, 64
LINK_NBYTES_PER_TOKEN = LAYERS * (HQ * D * 4 + 2 * HKV * D * 2 + HQ * (D * 4 + 8))


@pytest.fixture
def temporary(tmp_path: Path) -> Path:
    folder = tmp_path / "temporary"
    folder.mkdir()
    return folder


def left_in(folder: Path) -> list[str]:
    """What is in the folder, but for the one that torch makes when it is imported."""
    return [path.name for path in folder.iterdir() if not path.name.startswith("torchinductor_")]


def test_text_and_table_and_no_trace(temporary: Path) -> None:
    done = run(temporary, "generate", "--prompt", PARIS, "--max-new-tokens", "9")
    assert (done.returncode, done.stderr) == (0, "")
    text, _, table = done.stdout.partition("\n\n")
    assert "Paris" in text
    for title in ("prefill", "decode", "KV on sw_emu:0", "KV on sw_emu:1", "host offload would move", "ratio"):
        assert title in table
    assert "P2P, direct" in table
    assert left_in(temporary) == []


@pytest.fixture(scope="module")
def batch(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The document of a batch whose prompts have different lengths, one of them from a file."""
    folder = tmp_path_factory.mktemp("batch")
    prompt_file = folder / "prompt.txt"
    prompt_file.write_text("Which planet of our solar system is called the Red Planet?\n")
    cards = [f"--card=sw_emu:{i}?ssd={folder}/volume{i}&dram=256M" for i in range(2)]
    arguments = ["--prompt", PARIS, "--prompt-file", str(prompt_file), "--max-new-tokens", "12", "--json"]
    done = run(folder, "generate", *cards, *arguments)
    assert (done.returncode, done.stderr) == (0, "")
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def test_each_prompt_of_a_batch_has_its_text(batch: dict[str, Any]) -> None:
    assert "Paris" in batch["texts"][0]
    assert "Mars" in batch["texts"][1]
    assert all(0 < len(ids) <= 12 for ids in batch["tokens"])


@needs_verilator
@patient
def test_simulated_rtl_writes_the_same_text(batch: dict[str, Any], tmp_path: Path) -> None:
    library()  # builds the kernel, which takes longer than the command may
    arguments = ["--card=hw_emu:0?memory=ddr4-2400", "--prompt", PARIS, "--max-new-tokens", "4", "--json"]
    done = run(tmp_path, "generate", *arguments)
    assert (done.returncode, done.stderr) == (0, "")
    document = json.loads(done.stdout)
    assert document["tokens"] == [batch["tokens"][0][:4]]
    (card,) = document["cards"]
    assert card["simulated"]
    assert card["kernel_seconds"] == card["kernel_cycles"] / 300e6 > 0


def test_link_bytes_are_those_of_the_formula(batch: dict[str, Any]) -> None:
    link = batch["link"]
    steps = max(map(len, batch["tokens"])) - 1  # the batch goes on until its last sequence ends
    wanted = 2 * steps * LINK_NBYTES_PER_TOKEN
    assert link["payload_bytes"] == pytest.approx(wanted, rel=0.01)
    assert link["formula_bytes"] == pytest.approx(wanted, rel=0.01)
    assert link["host_offload_to_link_ratio"] == pytest.approx(link["host_offload_bytes"] / link["payload_bytes"])
    assert link["overhead_bytes"] > 0


def test_figures_of_the_cards_add_up(batch: dict[str, Any]) -> None:
    for key in ("down_payload_bytes", "up_payload_bytes", "overhead_bytes", "upload_bytes"):
        assert (
            sum(card["upload_bytes" if key == "upload_bytes" else f"link_{key}"] for card in batch["cards"])
            == batch["link"][key]
        )
    assert sum(card["pairs"] for card in batch["cards"]) == 2 * HKV
    assert all(card["kv_bytes"] > 0 for card in batch["cards"])
    assert all((card["path"], card["io"]) == ("p2p", "direct") for card in batch["cards"])
    stored = batch["prefill"]["tokens"] + 2 * (max(map(len, batch["tokens"])) - 1)
    payload = stored * 2 * LAYERS * HKV * D * 2
    assert batch["write_buffer"]["peak_bytes"] <= payload
    assert batch["media"]["payload_written_bytes"] <= batch["media"]["write_bytes"]


def test_chunks_and_micro_batches_change_no_token(batch: dict[str, Any], tmp_path: Path) -> None:
    """Later chunks of 10 tokens have 30 rows per KV head and go straight to the cards, in one list each; decode steps
    make two."""
    prompts = ["--prompt", PARIS, "--prompt", "Which planet of our solar system is called the Red Planet?"]
    cards = ["--card=sw_emu:0?dram=256M", "--card=sw_emu:1?dram=256M"]
    parts = ["--micro-batches", "2", "--prefill-chunk", "10", "--device", "cpu"]
    done = run(tmp_path, "generate", *cards, *prompts, *parts, "--max-new-tokens", "12", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    document = json.loads(done.stdout)
    assert document["tokens"] == batch["tokens"]
    steps = max(map(len, batch["tokens"])) - 1
    chunks = -(-42 // 10)  # the longer prompt has 42 tokens
    # transformers may take steps beyond the end and drop them
    assert all(card["lists"] >= LAYERS * (chunks - 1 + 2 * steps) for card in document["cards"])
    assert document["media"]["read_back_bytes"] == 0


def test_prompt_lookup_reads_less_per_token(temporary: Path) -> None:
    text = "Repeat this sentence word for word: Seven grey cats sat on the wall of the old mill."
    documents = []
    for more in ([], ["--prompt-lookup", "5"]):
        done = run(temporary, "generate", "--prompt", text, "--max-new-tokens", "16", "--json", *more)
        assert (done.returncode, done.stderr) == (0, "")
        documents.append(json.loads(done.stdout))
    assert documents[0]["tokens"] == documents[1]["tokens"]
    assert documents[0]["texts"] == documents[1]["texts"]
    plain, drafted = (document["kernel"]["kv_read_bytes_per_decoded_token"] for document in documents)
    assert drafted < 0.6 * plain


def test_a_gpu_that_is_missing_is_bad_input(temporary: Path) -> None:
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    done = run(temporary, "generate", "--prompt", "p", "--device", "cuda")
    assert (done.returncode, done.stdout) == (2, "")
    assert "device 'cuda'" in done.stderr
    assert left_in(temporary) == []


def test_ctrl_c_ends_cleanly(temporary: Path) -> None:
    with start(temporary, "generate", "--prompt", "Tell a long story.", "--max-new-tokens", "500") as process:
        assert process.stdout is not None
        assert process.stdout.read(1)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=TIMEOUT_S)
    assert (process.returncode, err) == (130, "")
    assert left_in(temporary) == []


def test_a_closed_pipe_ends_cleanly(temporary: Path) -> None:
    with start(temporary, "generate", "--prompt", "Tell a long story.", "--max-new-tokens", "500") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.read(1)
        process.stdout.close()
        err = process.stderr.read()
        process.wait(TIMEOUT_S)
    assert (process.returncode, err) == (141, "")
    assert left_in(temporary) == []


def test_output_that_cannot_be_written_is_one_line(temporary: Path) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            command("--version"),
            env=environment(temporary),
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 3
    assert done.stderr == "nearkv: error: cannot write the output: No space left on device\n"


def test_a_closed_output_is_no_error(temporary: Path) -> None:
    line = ["sh", "-c", '"$@" >&-', "sh", *command("--version")]
    done = run_command(temporary, line)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_card_without_enough_memory_is_card_trouble(
    temporary: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("NEARKV_THREADS", "1")
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    assert main(["generate", "--prompt", "p", "--max-new-tokens", "2", "--card", "sw_emu:0?dram=1M"]) == 3
    out, err = capfd.readouterr()
    assert out == ""
    (error,) = err.splitlines()
    assert error.startswith("nearkv: error: sw_emu:0")
    assert "memory" in error
    assert left_in(temporary) == []


def test_doctor_finds_the_emulated_cards_in_order(temporary: Path) -> None:
    done = run(temporary, "doctor", "--json", "--card", "sw_emu:0", "--card", f"sw_emu:1?ssd={temporary}/new")
    document = json.loads(done.stdout)
    checks = {check["name"]: check for check in document["checks"]}
    assert (done.returncode, document["ok"], done.stderr) == (0, True, "")
    for card in ("sw_emu:0", "sw_emu:1"):
        for what in ("opens", "P2P", "direct I/O", "free space"):
            assert checks[f"{card} {what}"]["ok"]
    assert checks["torch"]["ok"]
    assert all(check["fix"] for check in document["checks"] if not check["ok"])
    assert left_in(temporary) == []


def test_the_example_runs(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["generate.py", PARIS])
    with torch_threads(1):
        runpy.run_path(str(ROOT / "examples" / "generate.py"), run_name="__main__")
    out = capsys.readouterr().out
    assert "Paris" in out
    assert "host offload would have moved" in out


def test_ctrl_c_while_the_program_is_being_loaded_ends_it_quietly(tmp_path: Path) -> None:
    prelude = """
import sys
class Interrupts:
    def find_spec(self, name, *_):
        if name == "typer":
            raise KeyboardInterrupt
sys.meta_path.insert(0, Interrupts())
"""
    done = run(tmp_path, "--version", prelude=prelude)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")
