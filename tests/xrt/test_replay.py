# SPDX-License-Identifier: Apache-2.0
"""Golden vectors through the unmodified XRT: a native program of ours, every kernel, both modes, both kinds of buffer.

What a card's program does is what runs here; only the process behind XRT's emulation library is ours.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from nearkv_emulation.xrt_run.design import default_design
from nearkv_emulation.xrt_run.emulate import Finished, Options, emulate

from tests.support import vectors
from tests.support.jobs import BASE
from tests.support.vectors import Vector
from tests.support.xrt import direct_io, installation, program

# Vectors that any card can run: one bank, all of it there.
ON_A_CARD = [v for v in vectors.load() if v.image.base == BASE and not v.image.holes]
# One of each kind of work, for kernels that take their time.
FEW = ("identify", "head-size-64", "waves", "new-rows-tail", "crc-k-first-row", "list-version")


def replay(chosen: list[Vector], options: Options, folder: Path, kind: str = "normal") -> tuple[Finished, list[str]]:
    """Runs the vectors in one program; how it ended, and what differs."""
    lines = []
    (base,) = {vector.image.base for vector in chosen}
    for number, vector in enumerate(chosen):
        image = vector.image
        (folder / f"{number}.before").write_bytes(image.memory.tobytes())
        registers = " ".join(str(value - image.base) for value in (image.kv, image.ctl, image.out))
        lines.append(f"{folder}/{number}.before {folder}/{number}.after {registers}\n")
    (folder / "list").write_text("".join(lines))
    line = ["sh", "-c", f'exec {program("replay")} "$NEARKV_XCLBIN" {base:#x} {kind} {folder}/list']
    finished = emulate(line, options, installation=installation())
    wrong = []
    for number, vector in enumerate(chosen):
        differ = vector.differing_in(np.fromfile(folder / f"{number}.after", np.uint8))
        wrong += [f"{vector.name}: {len(differ)} bytes differ, the first at {differ[0]:#x}"] if differ else []
    return finished, wrong


def named(names: tuple[str, ...]) -> list[Vector]:
    found = [vector for vector in ON_A_CARD if vector.name in names]
    assert len(found) == len(names)
    return found


def test_every_vector_gives_its_bytes(tmp_path: Path) -> None:
    assert len(ON_A_CARD) > 300
    finished, wrong = replay(ON_A_CARD, Options(timeout_s=120), tmp_path)
    assert (finished.status, wrong) == (0, [])
    (session,) = finished.reports[0].details["sessions"]
    assert session["starts"] == {"nearkv_attend_1": len(ON_A_CARD)}
    # Each vector went down and came up once, in two parts.
    nbytes = sum(vector.image.memory.nbytes for vector in ON_A_CARD)
    assert (session["to_device_nbytes"], session["from_device_nbytes"]) == (nbytes, nbytes)


@pytest.mark.parametrize("mode", ["attach", "launch"])
@pytest.mark.parametrize("kernel", ["model", "rtl"])
def test_other_kernels_and_modes_give_the_same_bytes(kernel: str, mode: str, tmp_path: Path) -> None:
    finished, wrong = replay(named(FEW), Options(kernel, attach=mode == "attach", timeout_s=120), tmp_path)
    assert (finished.status, wrong) == (0, [])
    assert [(r.name.partition("_")[0], r.alive) for r in finished.reports] == [
        ("attached" if mode == "attach" else "device0", False)
    ]


def test_a_bank_around_4_gib(tmp_path: Path) -> None:
    """Addresses on both sides of the border: no half of a pointer is lost on the way."""
    (vector,) = [v for v in vectors.load() if v.name == "jobs-other-base"]
    start, end = vector.image.base, vector.image.base + vector.image.memory.nbytes
    assert start < 1 << 32 < end
    whole = default_design()
    design = replace(whole, banks=(replace(whole.banks[0], base=start),))
    (tmp_path / "other.xclbin").write_bytes(design.container(b"no bitstream").pack())
    finished, wrong = replay([vector], Options(xclbin=tmp_path / "other.xclbin", timeout_s=120), tmp_path)
    assert (finished.status, wrong) == (0, [])


def test_pages_that_a_drive_reads_reach_the_kernel_without_a_message(tmp_path: Path) -> None:
    """The buffer is filled by pread and saved by pwrite, both with O_DIRECT on real files; nothing is synced."""
    direct_io(tmp_path)
    finished, wrong = replay(named(FEW), Options(timeout_s=120), tmp_path, "p2p")
    assert (finished.status, wrong) == (0, [])
    (session,) = finished.reports[0].details["sessions"]
    assert (session["p2p_buffers"], session["p2p_nbytes"]) == (1, 1 << 20)
    assert (session["to_device_nbytes"], session["from_device_nbytes"]) == (0, 0)
