# SPDX-License-Identifier: Apache-2.0
"""The `pynq:` card through an unmodified PYNQ 3.0.1 and the real XRT; only the process behind XRT's emulation is ours.

`make test-pynq` makes the environment that PYNQ needs. What goes wrong with PYNQ is in tests/unit/driver/test_pynq.py.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.support import cli
from tests.support.fake_pyxrt import write_binary
from tests.support.tiny_folder import tiny_folder
from tests.support.xrt import direct_io, under_xrt

SKIPPED = ["the card has one bank", "P2P works", "the card does not count time in cycles"]
_PYTHON = cli.ROOT / ".venv-pynq" / "bin" / "python"


@pytest.fixture(autouse=True)
def pynq() -> None:
    if not _PYTHON.is_file():
        pytest.skip("PYNQ 3.0.1 is missing: make test-pynq")


def test_the_contract_holds_through_pynq(tmp_path: Path) -> None:
    small = write_binary(tmp_path / "small.xclbin")
    line = [str(_PYTHON), "-m", "pytest", "tests/contract", "-q", "-p", "no:cacheprovider", "-rs"]
    done = under_xrt(tmp_path, line, "--kernel", "model", "--xclbin", str(small), NEARKV_CONTRACT_URL="pynq:0")
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    summary = [text for text in done.stdout.splitlines() if text.startswith("SKIPPED")]
    assert [text.rpartition(": ")[2] for text in summary] == SKIPPED


def test_generate_gives_the_tokens_of_sw_emu(tmp_path: Path) -> None:
    """With a volume, P2P and little room for extents, so that pages go to the drive and come back from it."""
    direct_io(tmp_path)
    binary = write_binary(tmp_path / "card.xclbin", nbytes=64 << 20)
    options = ["--model", str(tiny_folder(tmp_path / "model")), "--raw", "--json", "--max-new-tokens", "6"]
    options += ["--prompt", "a b c d e f g h " * 40]
    url = f"pynq:0?xclbin={binary}&ssd={tmp_path / 'pynq'}&resident=64K"
    line = cli.command("generate", "--card", url, *options)
    ours = document(under_xrt(tmp_path, [str(_PYTHON), *line[1:]], "--xclbin", str(binary)))
    theirs = document(cli.run(tmp_path, "generate", "--card", f"sw_emu:0?ssd={tmp_path / 'sw'}", *options))
    assert ours["tokens"] == theirs["tokens"]
    (card,) = ours["cards"]
    assert card["path"] == "p2p"
    assert card["media_write_bytes"] > 0
    assert card["media_read_bytes"] > 0


def document(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    found: dict[str, Any] = json.loads(done.stdout)
    return found
