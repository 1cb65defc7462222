# SPDX-License-Identifier: Apache-2.0
"""`nearkv plan` as users run it, mostly in this process; bad input ends with 2, one line, and no file."""

from __future__ import annotations

import json
import shlex
import subprocess
import time
from pathlib import Path
from unittest.mock import Mock

import pytest
from nearkv.cli import main
from nearkv.errors import UserError

from tests.support.cli import command, environment, run
from tests.support.planning import needs_matplotlib, needs_simpy

pytestmark = needs_simpy
SHORT = ("plan", "--model", "opt-66b")
GOOD = (*SHORT, "--context", "64k")


def test_the_table(tmp_path: Path) -> None:
    """In a process of its own: neither torch nor matplotlib is needed for it."""
    check = (
        "import sys, atexit; atexit.register(lambda: sys.stderr.write(str({'torch', 'matplotlib'} & set(sys.modules))))"
    )
    done = run(tmp_path, *GOOD, "--cards", "16xsmartssd", "--gpu", "h100-80g", "--compare", prelude=check)
    assert (done.returncode, done.stderr) == (0, "set()")
    for word in ("fits", "bottleneck", "drives", "time to first token", "J per token", "per drive and day", "FlexGen"):
        assert word in done.stdout


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*GOOD, "--json", "--compare", "--host-dram", "1 TB"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["fits"] is True
    assert told["kv_bytes_per_token"] == 2359296
    assert told["tokens_per_s"] == pytest.approx(16 / told["step_s"])
    assert {plan["policy"] for plan in told["compared"]} >= {"hilos", "host-dram", "host-ssd", "plain-ssd", "gpu"}
    assert "dram 1.00 TB" in told["inputs"]["host xeon-h3"]


@needs_matplotlib
@pytest.mark.parametrize("suffix", ["png", "svg"])
def test_a_sweep_with_a_picture(tmp_path: Path, capsys: pytest.CaptureFixture[str], suffix: str) -> None:
    picture = tmp_path / f"out.{suffix}"
    assert main([*SHORT, "--sweep", "context=4k..64k", "--plot", str(picture), "--compare"]) == 0
    assert picture.read_bytes()[:4] in (b"\x89PNG", b"<?xm")
    assert "65536" in capsys.readouterr().out


@needs_matplotlib
def test_a_sweep_of_drafts_from_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A picture with a logarithmic axis would leave the first point out."""
    picture = tmp_path / "out.svg"
    line = [*GOOD, "--acceptance", "0.9", "--sweep", "drafts=0..4", "--cards", "smartssd", "--json"]
    assert main([*line, "--plot", str(picture)]) == 0
    points = json.loads(capsys.readouterr().out)["points"]
    speeds = [point["plans"][0]["tokens_per_s"] for point in points]
    assert [point["drafts"] for point in points] == [0, 1, 2, 4]
    assert speeds == sorted(speeds)
    assert "<!-- 0 -->" in picture.read_text() or ">0<" in picture.read_text()


def test_options_that_count_only_beside_others(capsys: pytest.CaptureFixture[str]) -> None:
    """What is refused alone is used in a comparison, or by the plain drives' own plan."""
    for line in (
        ["--place", "gpu", "--cards", "8xsmartssd", "--compare"],
        ["--drives", "8xpm9a3", "--compare"],
        ["--place", "plain-ssd", "--drives", "8xpm9a3"],
    ):
        assert main([*GOOD, *line, "--json"]) == 0
        told = json.loads(capsys.readouterr().out)
        inputs = [name for one in (told, *told.get("compared", ())) for name in one["inputs"]]
        assert any(name.startswith("8 ") for name in inputs)


def test_a_sweep_of_100_points(capsys: pytest.CaptureFixture[str]) -> None:
    began = time.process_time()
    assert main([*SHORT, "--sweep", "context=4k..128k:100", "--json"]) == 0
    assert time.process_time() - began < 30
    points = json.loads(capsys.readouterr().out)["points"]
    assert len(points) == 100
    steps = [point["plans"][0]["step_s"] for point in points]
    assert steps == sorted(steps)


def test_a_trace(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*GOOD, "--trace", str(tmp_path / "out.json")]) == 0
    events = json.loads((tmp_path / "out.json").read_text())["traceEvents"]
    assert {event["ph"] for event in events} == {"M", "X"}
    assert all(event["dur"] > 0 for event in events if event["ph"] == "X")


@pytest.mark.parametrize(
    "arguments",
    [["--trace", "{file}"], pytest.param(["--sweep", "batch=1..2", "--plot", "{file}"], marks=needs_matplotlib)],
)
def test_a_file_is_whole_or_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    """A plan that fails, or is interrupted, leaves what was there; one that ends replaces it, through links."""
    file, link = tmp_path / "real.svg", tmp_path / "link.svg"
    file.write_text("dear")
    file.chmod(0o640)
    link.symlink_to(file)
    line = [*GOOD, *(part.format(file=link) for part in arguments)]
    for error, code in ((UserError("no"), 2), (KeyboardInterrupt(), 130)):
        with monkeypatch.context() as patched:
            patched.setattr("nearkv.planner.plan.simulate", Mock(side_effect=error))
            assert main(line) == code
        assert file.read_text() == "dear"
        assert {path.name for path in tmp_path.iterdir()} == {"real.svg", "link.svg"}
    assert main(line) == 0
    assert "dear" not in file.read_text()
    assert len(file.read_text()) > 1000
    assert file.stat().st_mode & 0o777 == 0o640
    assert link.is_symlink()
    assert {path.name for path in tmp_path.iterdir()} == {"real.svg", "link.svg"}


@pytest.mark.parametrize("redirect", ["", "> out.txt"])
def test_a_trace_does_not_mix_with_the_answer(tmp_path: Path, redirect: str) -> None:
    """Standard output may be a pipe, or a file that a rename would take away."""
    line = f"{shlex.join(command(*GOOD, '--json', '--trace', '/dev/stdout'))} {redirect}"
    done = subprocess.run(
        ["sh", "-c", line], cwd=tmp_path, env=environment(tmp_path), capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 2
    assert "trace file /dev/stdout: it is " in done.stderr
    assert done.stdout == ""
    assert all(path.read_text() == "" for path in tmp_path.iterdir())


def test_a_card_and_a_model_of_the_user(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "card.toml").write_text(
        'kind = "card"\ndrive = "pm9a3"\nmemory = "8 GiB"\nmemory_rate = "38 GB/s"\nclock = "250 MHz"\n'
        'link = "12 GB/s"\nlaunch = "50 us"\ndma = "30 us"\n'
    )
    config = {"hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8}
    (tmp_path / "config.json").write_text(json.dumps({**config, "intermediate_size": 14336, "vocab_size": 128256}))
    cards = f"4x{tmp_path / 'card.toml'}"
    assert main(["plan", "--model", str(tmp_path), "--context", "131072", "--cards", cards, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["kv_bytes_per_token"] == 131072


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["plan"], "--model"),
        (["plan", "--model", "nosuch"], "no model is called 'nosuch'"),
        ([*GOOD, "--context", "far"], "context is 'far'"),
        ([*GOOD, "--context", "0"], "context is 0"),
        ([*GOOD, "--batch", "-3"], "batch is -3"),
        ([*GOOD, "--output-tokens", "0"], "output is 0"),
        ([*GOOD, "--cards", "0xsmartssd"], "cards are '0xsmartssd'"),
        ([*GOOD, "--cards", "4xnosuch"], "no card is called 'nosuch'"),
        ([*GOOD, "--cards", "4xpm9a3"], "no card is called 'pm9a3'"),
        ([*GOOD, "--cards", "{work}/no.toml"], "No such file"),
        ([*GOOD, "--gpu", "tpu"], "no gpu is called 'tpu'"),
        ([*GOOD, "--host", "mine"], "no host is called 'mine'"),
        ([*GOOD, "--host-dram", "512"], "host-dram is '512'; a size such as"),
        ([*GOOD, "--host-dram", "-1 GB"], "dram = -1e\\+09 B is impossible"),
        ([*GOOD, "--drives", "4xsmartssd", "--compare"], "no drive is called 'smartssd'"),
        ([*GOOD, "--place", "cloud"], "place is 'cloud'"),
        ([*GOOD, "--place", "host-ssd", "--x-cache"], "--x-cache is about cards; --place host-ssd has none"),
        ([*GOOD, "--place", "gpu", "--hit-rate", "0"], "--hit-rate is about cards; --place gpu has none"),
        ([*GOOD, "--kv-format", "fp4"], "kv-format is 'fp4'"),
        ([*GOOD, "--drafts", "64"], "drafts is 64"),
        ([*GOOD, "--drafts", "4", "--acceptance", "1"], "acceptance is 1"),
        ([*GOOD, "--batch", "nan"], "'--batch': "),
        ([*GOOD, "--batch", "nan"], "'nan'"),
        ([*GOOD, "--kwh", "dear"], "'dear'"),
        ([*GOOD, "--place", "gpu", "--cards", "8xsmartssd"], "--cards is about cards; --place gpu has none"),
        ([*GOOD, "--place", "gpu", "--sweep", "cards=1..8"], "--sweep cards is about cards; --place gpu has none"),
        ([*GOOD, "--drives", "8xpm9a3"], "--drives are plain ones, which --place nearkv does not use"),
        ([*GOOD, "--acceptance", "0.9"], "--acceptance is about drafts; give --drafts too"),
        ([*GOOD, "--sweep", "context=4k..8k"], "--sweep goes over context: leave out --context"),
        ([*GOOD, "--output-tokens", "9", "--sweep", "output=1..8"], "over output: leave out --output-tokens"),
        ([*GOOD, "--cards", "8xsmartssd", "--sweep", "cards=1..8"], "over cards: give --cards no count"),
        ([*GOOD, "--sweep", "batch=0..8"], "sweep batch from 0 to 8; it must begin at 1"),
        ([*GOOD, "--hit-rate", "1.1"], "hit is 1.1"),
        ([*GOOD, "--hit-rate", "nan"], "hit is nan"),
        ([*GOOD, "--years", "0"], "years = 0"),
        ([*GOOD, "--kwh", "-1"], "price of a kWh = -1"),
        ([*GOOD, "--sweep", "speed=1..2"], "sweep over 'speed'"),
        ([*SHORT, "--sweep", "context=4k"], "sweep is 'context=4k'"),
        ([*GOOD, "--plot", "{work}/a.png"], "--plot draws a sweep"),
        ([*SHORT, "--sweep", "context=4k..8k", "--plot", "{work}/a.gif"], "a.gif: a name that ends in"),
        ([*SHORT, "--sweep", "context=4k..8k", "--plot", "{work}/no/a.png"], "no/a.png: No such file"),
        ([*GOOD, "--sweep", "cards=4k..8k", "--plot", "{work}/a.png"], "cards is 8192"),
        ([*SHORT, "--sweep", "context=1k..32m", "--plot", "{work}/a.png"], "context is 33554432"),
        ([*SHORT, "--sweep", "context=4k..8k", "--trace", "{work}/t.json"], "--trace is of one plan"),
        ([*GOOD, "--trace", "{work}/no/t.json"], "no/t.json: No such file"),
        ([*GOOD, "--trace", "{work}"], "it is no regular file"),
        ([*GOOD, "--trace", "/dev/null"], "error: trace file /dev/null: it is no regular file"),
        ([*GOOD, "--trace", "{work}/a\0b"], "null"),
        ([*GOOD, "--speed", "9"], "--speed"),
    ],
)
def test_bad_input(tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], named: str) -> None:
    assert main([part.format(work=tmp_path) for part in arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert captured.err.startswith("nearkv: error: ")
    assert named.replace("\\", "") in captured.err
    assert list(tmp_path.iterdir()) == []


def test_without_simpy_it_says_what_to_install(tmp_path: Path) -> None:
    done = run(tmp_path, *GOOD, prelude="import sys; sys.modules['simpy'] = None")
    assert done.returncode == 2
    assert "pip install 'nearkv[plan]'" in done.stderr
