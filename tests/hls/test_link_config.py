# SPDX-License-Identifier: Apache-2.0
"""The link configurations connect every master, and all of them to the same memory, as docs/kernel-contract.md asks."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

CONFIGS = sorted((Path(__file__).resolve().parents[2] / "fpga/hls/vitis").glob("link_*.cfg"))


def test_there_are_configurations() -> None:
    assert CONFIGS


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_all_masters_reach_one_memory(path: Path) -> None:
    links = re.findall(r"^sp=nearkv_attend_1\.(\w+):(\S+)$", path.read_text(), re.MULTILINE)
    assert sorted(master for master, _ in links) == ["ctl", "kv", "out"]
    assert len({memory for _, memory in links}) == 1
