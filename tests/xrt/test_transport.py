# SPDX-License-Identifier: Apache-2.0
"""The `xrt:` card through the real XRT library, with only the process behind its emulation shim being ours.

Both ways of control: registers, and runs that XRT's scheduler starts. pyxrt is not needed: nearkv's own binding is.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.cli import TIMEOUT_S, command, environment
from tests.support.fake_pyxrt import write_binary
from tests.support.xrt import direct_io, under_xrt


@pytest.mark.parametrize("way", ["registers", "runs"])
def test_the_contract_holds_through_the_real_library(way: str, tmp_path: Path) -> None:
    small = write_binary(tmp_path / "small.xclbin")
    line = [sys.executable, "-m", "pytest", "tests/contract", "-q", "-p", "no:cacheprovider", "-rs"]
    url = f"xrt:0?api=native&control={way}"
    done = under_xrt(tmp_path, line, "--kernel", "model", "--xclbin", str(small), NEARKV_CONTRACT_URL=url)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    skipped = {line.partition(": ")[2] for line in done.stdout.splitlines() if line.startswith("SKIPPED")}
    assert skipped == {"the card has one bank", "P2P works", "the card does not count time in cycles"}


def generate(temporary: Path, card: str, *, xrt: bool) -> dict[str, Any]:
    """The document, which is all that stands on stdout."""
    line = command(
        "generate", "--card", card, "--prompt", "The capital of France is", "--max-new-tokens", "4", "--json"
    )
    if xrt:
        done = under_xrt(temporary, line)
    else:
        done = subprocess.run(
            line, env=environment(temporary), capture_output=True, encoding="utf-8", timeout=TIMEOUT_S
        )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def test_generate_gives_the_tokens_of_sw_emu(tmp_path: Path) -> None:
    """With a volume, P2P and little room for extents, so that pages go to the drive and come back from it."""
    direct_io(tmp_path)
    ours = generate(tmp_path, f"xrt:0?ssd={tmp_path / 'xrt'}&resident=64K", xrt=True)
    theirs = generate(tmp_path, f"sw_emu:0?ssd={tmp_path / 'sw'}", xrt=False)
    assert ours["tokens"] == theirs["tokens"]
    (card,) = ours["cards"]
    assert card["path"] == "p2p"
    assert card["media_write_bytes"] > 0
