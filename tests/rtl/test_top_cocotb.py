# SPDX-License-Identifier: Apache-2.0
"""`nearkv_attend` under cocotb and cocotbext-axi: its tests on Verilator, and one that Icarus must tell the same of."""

from __future__ import annotations

import json
from pathlib import Path

from tests.support.rtl_tools import COCOTB, VERILATOR, needs, needs_icarus, patient

pytestmark = [needs(*COCOTB), patient]
TOP = "nearkv_attend"
# What the registers of a Verilated kernel start with.
SEED = ("+verilator+rand+reset+2", "+verilator+seed+{}")


def transactions(simulator: str, folder: Path, *plusargs: str) -> list[dict[str, object]]:
    from tests.rtl.simulate import simulate

    folder.mkdir()
    told = folder / "told.json"
    simulate(TOP, "bench_transactions", simulator, folder, plusargs=plusargs, NEARKV_TRANSACTIONS=str(told))
    return json.loads(told.read_text())


@needs(*VERILATOR)
def test_top_on_verilator(tmp_path: Path) -> None:
    from tests.rtl.simulate import simulate

    simulate(TOP, f"bench_{TOP}", "verilator", tmp_path, plusargs=[part.format(7) for part in SEED])


@needs(*VERILATOR)
@needs_icarus
def test_icarus_tells_what_verilator_tells(tmp_path: Path) -> None:
    """Icarus starts with X everywhere, Verilator with two sets of random values: same memory, same transactions."""
    icarus = transactions("icarus", tmp_path / "icarus")
    assert len(icarus) == 4
    for seed in (1, 2):
        verilator = transactions("verilator", tmp_path / f"verilator{seed}", *(part.format(seed) for part in SEED))
        assert verilator == icarus
