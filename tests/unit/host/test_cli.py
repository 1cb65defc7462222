# SPDX-License-Identifier: Apache-2.0
"""Options reach the work unchanged, output goes where it belongs, and every error is one line with its exit code."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from nearkv.cli import doctor as cli_doctor
from nearkv.cli import generate as cli_generate
from nearkv.cli import main
from nearkv.config import DEFAULT_CARDS
from nearkv.doctor_check import Check
from nearkv.errors import UserError
from nearkv.timeline import KERNEL
from nearkv_driver.errors import DirectIoUnavailable, DriverError, TransportUnavailable

from tests.support.figures import result

GenerateCall = dict[str, Any]


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NEARKV_CACHE_DIR", "NEARKV_CARDS", "NEARKV_THREADS"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[GenerateCall]:
    """Calls of `generate`, which is replaced by one that tells of every step and gives fixed figures."""
    seen: list[GenerateCall] = []

    def generate(prompts: list[str], **options: Any) -> Any:
        seen.append({"prompts": prompts, **options})
        options["on_stage"]("loading")
        options["on_prefill"](1, 2)
        for index in range(len(prompts)):
            options["on_text"](index, f"text {index}")
        for index in range(len(prompts)):
            options["on_end"](index)
        return result()

    monkeypatch.setattr(cli_generate, "generate", generate)
    return seen


def failing(error: BaseException) -> Callable[..., Any]:
    def generate(*_: Any, **options: Any) -> Any:
        options["on_text"](0, "half a line")
        raise error

    return generate


def one_error_line(capsys: pytest.CaptureFixture[str]) -> str:
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1, lines
    assert lines[0].startswith("nearkv: error: ")
    return lines[0]


def test_a_trace_is_written_for_perfetto(
    calls: list[GenerateCall], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    inner = cli_generate.generate

    def generate(prompts: list[str], **options: Any) -> Any:
        timeline = options["timeline"]
        timeline.add(timeline.add_card("sw_emu:0"), KERNEL, 1.0, 2.0)
        return inner(prompts, **options)

    monkeypatch.setattr(cli_generate, "generate", generate)
    assert main(["generate", "--prompt", "a", "--trace", str(tmp_path / "trace.json")]) == 0
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert [event["dur"] for event in events if event["ph"] == "X"] == [1e6]


def test_a_trace_that_cannot_be_written_is_refused_before_the_work(
    calls: list[GenerateCall], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["generate", "--prompt", "a", "--trace", str(tmp_path / "no" / "trace.json")]) == 2
    assert "trace file" in one_error_line(capsys)
    assert not calls


def test_a_wave_file_goes_into_the_urls_of_simulated_cards(calls: list[GenerateCall], tmp_path: Path) -> None:
    cards = ["--card", "hw_emu:0?seed=2", "--card", "hw_emu:1"]
    assert main(["generate", "--prompt", "a", *cards, "--wave", str(tmp_path / "run.fst")]) == 0
    files = [f"{tmp_path}/run.{i}.fst" for i in range(2)]
    assert calls[0]["cards"] == (f"hw_emu:0?seed=2&wave={files[0]}", f"hw_emu:1?wave={files[1]}")


def test_a_wave_file_that_nobody_can_write_is_refused_before_the_work(
    calls: list[GenerateCall], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["generate", "--prompt", "a", "--wave", str(tmp_path / "run.fst")]) == 2
    assert "only hw_emu cards write waveforms" in one_error_line(capsys)
    assert main(["generate", "--prompt", "a", "--card", "hw_emu:0", "--wave", str(tmp_path / "no" / "run.fst")]) == 2
    assert "No such file or directory" in one_error_line(capsys)
    assert not calls


def test_defaults(calls: list[GenerateCall]) -> None:
    assert main(["generate", "--prompt", "hello"]) == 0
    (call,) = calls
    assert call["prompts"] == ["hello"]
    assert call["model"] == "smollm2"
    assert call["cards"] == DEFAULT_CARDS
    assert call["max_new_tokens"] == 128
    assert call["chat_template"] is True
    assert call["threads"] == len(os.sched_getaffinity(0))
    assert (call["device"], call["micro_batches"]) == ("auto", None)
    assert (call["prefill_chunk"], call["prompt_lookup"]) == (None, None)
    assert call["timeline"] is None
    assert call["cache_dir"].name == "nearkv"


def test_every_option_is_passed_on(calls: list[GenerateCall], tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("from a file\r\n")
    (tmp_path / "b.txt").write_bytes(b"\xef\xbb\xbf zwei\nZeilen \xc3\xbc")
    arguments = "generate --model some/folder --card sw_emu:4?dram=1G --card sw_emu:5 --max-new-tokens 7 --threads 2"
    files = ["--prompt-file", str(tmp_path / "a.txt"), "--prompt-file", str(tmp_path / "b.txt")]
    arguments += " --device cpu --micro-batches 2 --prefill-chunk 512 --prompt-lookup 4"
    assert main([*arguments.split(), "--raw", "--prompt", "p", "--prompt", "q", *files]) == 0
    (call,) = calls
    assert call["prompts"] == ["p", "q", "from a file", " zwei\nZeilen \u00fc"]
    assert call["model"] == "some/folder"
    assert call["cards"] == ("sw_emu:4?dram=1G", "sw_emu:5")
    assert (call["max_new_tokens"], call["threads"], call["chat_template"]) == (7, 2, False)
    assert (call["device"], call["micro_batches"]) == ("cpu", 2)
    assert (call["prefill_chunk"], call["prompt_lookup"]) == (512, 4)


def test_the_environment_gives_defaults_and_options_go_first(
    calls: list[GenerateCall], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NEARKV_CARDS", "sw_emu:7")
    monkeypatch.setenv("NEARKV_THREADS", "3")
    monkeypatch.setenv("NEARKV_CACHE_DIR", "/elsewhere")
    assert main(["generate", "--prompt", "p"]) == 0
    assert main(["generate", "--prompt", "p", "--card", "sw_emu:8", "--threads", "1"]) == 0
    assert [(call["cards"], call["threads"]) for call in calls] == [(("sw_emu:7",), 3), (("sw_emu:8",), 1)]
    assert calls[0]["cache_dir"] == Path("/elsewhere")


def test_text_then_table_on_stdout_and_nothing_on_stderr(
    calls: list[GenerateCall], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["generate", "--prompt", "hello"]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("text 0\n")
    for figure in ("20.0 tokens/s", "12.5 (host offload / link)", "path of sw_emu:1"):
        assert figure in out
    assert err == ""


def test_json_is_one_document_and_nothing_else(calls: list[GenerateCall], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["generate", "--prompt", "a", "--prompt", "b", "--json"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["texts"] == ["Paris.", "Rome."]
    assert err == ""


@pytest.mark.parametrize(
    "arguments",
    [
        ["generate"],
        ["generate", "--prompt"],
        ["generate", "--prompt", "p", "--max-new-tokens", "0"],
        ["generate", "--prompt", "p", "--max-new-tokens", "-1"],
        ["generate", "--prompt", "p", "--max-new-tokens", "many"],
        ["generate", "--prompt", "p", "--threads", "0"],
        ["generate", "--prompt", "p", "--micro-batches", "0"],
        ["generate", "--prompt", "p", "--prefill-chunk", "0"],
        ["generate", "--prompt", "p", "--prompt-lookup", "0"],
        ["generate", "--prompt", "p", "--temperature", "0.5"],
        ["generate", "--prompt-file", "/no/such/file"],
        ["generate", "--prompt-file", "/"],
        ["doctor", "--card", "nosuch:0"],
        ["doctor", "extra"],
        ["nosuch"],
        ["--nosuch"],
    ],
)
def test_bad_options_are_one_line_and_exit_code_2(
    calls: list[GenerateCall], capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    assert main(arguments) == 2
    one_error_line(capsys)
    assert calls == []


def test_a_prompt_file_without_an_end_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("nearkv.cli.generate._PROMPT_NBYTES_MAX", 1000)
    assert main(["generate", "--prompt-file", "/dev/zero"]) == 2
    assert "/dev/zero: more than 1000 bytes" in one_error_line(capsys)


def test_a_prompt_file_that_is_no_text_names_the_place(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "binary"
    path.write_bytes(b"ab\xff")
    assert main(["generate", "--prompt-file", str(path)]) == 2
    assert f"{path}: not UTF-8 text at byte 2" in one_error_line(capsys)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (UserError("context\nis too long"), 2),
        (DirectIoUnavailable("refused", path="/v", filesystem="tmpfs", errno_name="EINVAL"), 2),
        (TransportUnavailable("no g++", remedy="install it"), 3),
        (DriverError("the card is gone", card="sw_emu:0"), 3),
    ],
)
def test_errors_of_the_work_are_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: Exception, code: int
) -> None:
    monkeypatch.setattr(cli_generate, "generate", failing(error))
    assert main(["generate", "--prompt", "p"]) == code
    captured = capsys.readouterr()
    assert captured.out == "half a line\n"
    assert captured.err == f"nearkv: error: {' '.join(str(error).split())}\n"


def test_debug_adds_the_traceback(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(cli_generate, "generate", failing(UserError("bad")))
    assert main(["generate", "--prompt", "p", "--debug"]) == 2
    err = capsys.readouterr().err
    assert "Traceback" in err
    assert err.endswith("nearkv: error: bad\n")


def test_a_bug_is_not_dressed_up_as_bad_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli_generate, "generate", failing(KeyError("bug")))
    with pytest.raises(KeyError):
        main(["generate", "--prompt", "p"])


def test_ctrl_c_is_130_without_a_word(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(cli_generate, "generate", failing(KeyboardInterrupt()))
    assert main(["generate", "--prompt", "p"]) == 130
    captured = capsys.readouterr()
    assert captured.out == "half a line\n"
    assert captured.err == ""


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_the_signals_that_end_unwind_and_handlers_are_put_back(
    monkeypatch: pytest.MonkeyPatch, number: signal.Signals, code: int
) -> None:
    unwound: list[bool] = []

    def generate(*_: Any, **__: Any) -> Any:
        try:
            os.kill(os.getpid(), number)
            signal.sigtimedwait([], 5)  # the handler runs before this ends
        finally:
            unwound.append(True)

    inherited = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    try:
        before = signal.getsignal(number)
        monkeypatch.setattr(cli_generate, "generate", generate)
        with pytest.raises(SystemExit) as caught:
            main(["generate", "--prompt", "p"])
        assert caught.value.code == code
        assert unwound == [True]
        assert signal.getsignal(number) is before
    finally:
        signal.signal(signal.SIGHUP, inherited)


def test_waves_and_trace_do_not_overwrite_each_other(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    arguments = ["generate", "--prompt", "p", "--card", "hw_emu:0", "--trace", "run.out"]
    assert main([*arguments, "--wave", str(tmp_path / "run.out")]) == 2
    assert "--wave and --trace name the same file" in capsys.readouterr().err
    assert not any(tmp_path.iterdir())


def test_nohup_is_heeded(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[object] = []

    def generate(*_: Any, **__: Any) -> Any:
        seen.append(signal.getsignal(signal.SIGHUP))
        raise UserError("enough")

    monkeypatch.setattr(cli_generate, "generate", generate)
    inherited = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        assert main(["generate", "--prompt", "p"]) == 2
    finally:
        signal.signal(signal.SIGHUP, inherited)
    assert seen == [signal.SIG_IGN]


@pytest.mark.parametrize("arguments", [[], ["--help"]])
def test_help(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> None:
    assert main(arguments) == 0
    captured = capsys.readouterr()
    assert "generate" in captured.out
    assert "doctor" in captured.out
    assert captured.err == ""


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    name, version = capsys.readouterr().out.split()
    assert name == "nearkv"
    assert version[0].isdigit()


CHECKS = [
    Check("python", True, "3.11.2"),
    Check("verilator", False, "not found", "apt install verilator", optional=True),
]


def test_doctor_shows_each_check(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(cli_doctor, "examine", lambda cards: CHECKS)
    assert main(["doctor"]) == 0
    out = capsys.readouterr().out
    for text in ("python", "3.11.2", "optional", "apt install verilator"):
        assert text in out


def test_doctor_fails_when_something_needed_does(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cli_doctor, "examine", lambda cards: [*CHECKS, Check("sw_emu:0 opens", False, "no", "do it")])
    assert main(["doctor", "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["ok"] is False
    assert document["checks"][2] == {
        "name": "sw_emu:0 opens",
        "ok": False,
        "found": "no",
        "fix": "do it",
        "optional": False,
    }
