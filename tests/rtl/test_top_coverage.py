# SPDX-License-Identifier: Apache-2.0
"""Functional coverage of the RTL: crossings that random lists leave out, and a test that none is missing.

Runs in one process with the tests that it counts (`one_process`), after them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from nearkv_driver import regmap as rm
from nearkv_emulation.rtl import RtlCard, RtlKernel

from tests.rtl.test_equality import LIMIT, differing
from tests.support.jobs import Image, Job, Segment, build, poke
from tests.support.random_jobs import half, random_q
from tests.support.rtl_coverage import ERRORS, MEASURED, required
from tests.support.rtl_tools import needs_verilator, one_process, patient

pytestmark = [needs_verilator, patient, one_process]

ROWS = (1, 6, 24, 48)
TOKENS = (0, 1, 9, 16, 70, 128, 150)
# What must have run before the verdict means anything.
SOURCES = {"vectors": 1, "random": 300, "damage": 400, "crossings": 6 * 28}
REPORT = Path(__file__).parents[2] / "build" / "rtl_coverage.txt"


@pytest.fixture(scope="module")
def kernel() -> Iterator[RtlKernel]:
    with RtlCard(seed=3) as card:
        yield RtlKernel(card, LIMIT)


def job(rng: np.random.Generator, head_size: int, rows: int, tokens: int) -> Job:
    """One checked segment, a state that goes in and out, and scores that saturate now and then."""
    segments = [Segment(0, half(rng, tokens, head_size), half(rng, tokens, head_size), True, 4032)] if tokens else []
    scale = head_size**-0.5 if rows > 1 else 2.0**100
    return Job(random_q(rng, rows, head_size), [(0, tokens)], scale, segments, state_out=True, raw=rows == 6)


def broken(image: Image, kind: str) -> Image | None:
    """The image with one fault of a kind; None where a job without tokens cannot have it."""
    fields, spec = image.placed[0], image.jobs[0]
    descriptor = image.ctl + rm.LIST.nbytes
    index = {"axi_read": rm.MASTER_CTL, "axi_write": rm.MASTER_OUT}
    if kind in index:
        at = image.at(fields["q_addr" if kind == "axi_read" else "out_addr"])
        return replace(image, holes=((index[kind], at, at + 64),))
    if kind in ("bad_segment", "crc_mismatch", "nonfinite_kv") and not spec.segments:
        return None
    segment = rm.SEGMENT.unpack(image.memory[image.at(fields.get("segments_addr", image.ctl)) :][:64].tobytes())
    nan = np.array([np.nan], np.float16).tobytes()
    match kind:
        case "bad_job":
            return poke(image, descriptor + rm.JOB.nbytes - 1, b"\1")
        case "bad_limit":
            return poke(image, fields["limits_addr"] + 4, b"\xff" * 4)
        case "bad_segment":
            return poke(image, fields["segments_addr"] + 63, b"\1")
        case "crc_mismatch":
            return poke(image, segment["v_addr"] + 2, b"\x5a")
        case "nonfinite_kv":
            # Without its checksum, or the page would be the first fault.
            unchecked = poke(image, fields["segments_addr"] + rm.SEGMENT.offset["crc_addr"], bytes(8))
            return poke(unchecked, segment["v_addr"], nan)
        case "nonfinite_q":
            return poke(image, fields["q_addr"], np.array([np.inf], np.float32).tobytes())
        case "bad_state":
            # q is no state: its last words are no T.
            return poke(image, descriptor + rm.JOB.offset["state_in"], image.ctl.to_bytes(8, "little"))
    raise ValueError(f"no fault of kind {kind}")


@pytest.mark.parametrize("head_size", rm.HEAD_SIZES)
def test_crossings(kernel: RtlKernel, head_size: int) -> None:
    """Every class of rows and length, sound in one list, and each job alone with a fault; all kinds take turns."""
    rng = np.random.default_rng(head_size)
    jobs = [job(rng, head_size, rows, tokens) for rows in ROWS for tokens in TOKENS]
    assert differing(build(jobs), kernel, "directed") == []
    turn = 0
    for one in jobs:
        image = None
        while image is None:
            image = broken(build([one]), ERRORS[turn % len(ERRORS)])
            turn += 1
        assert differing(image, kernel, "crossings") == []


def test_every_required_crossing_was_run() -> None:
    """Fails with the bins that no list has hit; the counts are in build/rtl_coverage.txt."""
    absent = {name: n for name, n in SOURCES.items() if MEASURED.lists[name] < n}
    if absent:
        pytest.skip(f"needs the other RTL tests in the same run: {absent} lists or more of each, got {MEASURED.lists}")
    REPORT.parent.mkdir(exist_ok=True)
    REPORT.write_text(MEASURED.table())
    assert MEASURED.missing() == {name: [] for name in required()}, f"see {REPORT}"


def test_a_bin_that_was_not_hit_is_told() -> None:
    """The counts come from statuses in memory: a run that left none counts for nothing."""
    from tests.support.rtl_coverage import Coverage

    coverage, image = Coverage(), build([job(np.random.default_rng(1), 64, 1, 16)])
    coverage.record("none", image, image.memory)
    assert coverage.missing() == {name: sorted(bins) for name, bins in required().items()}
