# SPDX-License-Identifier: Apache-2.0
"""`CsimKernel` as the emulated card uses it: memory regions, threads, runs one after the other."""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from nearkv_driver import regmap as rm
from nearkv_emulation import build as builder
from nearkv_emulation.build import Variant
from nearkv_emulation.csim import CsimKernel, KernelBroke
from nearkv_emulation.kernel import Masters, Region

from tests.support.jobs import IDENTIFY, Job, Segment, build
from tests.support.kernels import kernel
from tests.support.random_jobs import random_image


def job(rng: np.random.Generator, tokens: int, rows: int = 1, head_size: int = 64) -> Job:
    k, v = (rng.normal(size=(tokens, head_size)).astype(np.float16) for _ in range(2))
    q = rng.normal(size=(rows, head_size)).astype(np.float32)
    return Job(q, [(0, tokens)], head_size**-0.5, [Segment(0, k, v)])


def test_lengths_in_turn_leave_nothing_behind() -> None:
    """64, 1, 17, 64 tokens without reload: the fourth run equals the first (case C35)."""
    lists = [build([job(np.random.default_rng(tokens), tokens)]) for tokens in (64, 1, 17, 64)]
    runs = [image.run(kernel("csim")) for image in lists]
    assert (runs[3] == runs[0]).all()
    assert [s["code"] for image, run in zip(lists, runs, strict=True) for s in image.statuses(run)] == [1] * 4


def test_threads_do_not_meet() -> None:
    images = [random_image(np.random.default_rng(seed), max_tokens=300) for seed in range(24)]
    alone = [image.run(kernel("csim")) for image in images]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda image: image.run(kernel("csim")), images))
    assert all((a == b).all() for a, b in zip(alone, together, strict=True))


def test_memory_in_pieces_reads_as_one() -> None:
    """Regions that touch each other, cut inside a burst."""
    rng = np.random.default_rng(3)
    image = build([job(rng, 100, rows=3), IDENTIFY])
    memory = image.memory.copy()
    cuts = [0, 4096 + 192, 8192 - 64, len(memory)]
    regions = [Region(image.base + a, memory[a:b].copy()) for a, b in pairwise(cuts)]
    kernel("csim").run(Masters(regions, regions, regions), image.kv, image.ctl, image.out)
    joined = np.concatenate([region.memory for region in regions])
    assert (joined == image.run(kernel("csim"))).all()


def test_list_in_memory_that_does_not_answer() -> None:
    image = build([IDENTIFY])
    memory = image.memory.copy()
    out = Region(image.base, memory)
    kernel("csim").run(Masters([out], [], [out]), image.kv, image.ctl, image.out)
    status = image.statuses(memory)[0]
    assert (status["code"], status["job"]) == (rm.Status.AXI_READ, rm.NOT_APPLICABLE)
    assert (status["detail"], status["address"]) == (rm.MASTER_CTL, image.ctl)


@pytest.mark.parametrize("offset", [1, 8, 32, 64])
@pytest.mark.parametrize("register", ["kv", "ctl"])
def test_register_that_is_not_in_the_header_is_refused(register: str, offset: int) -> None:
    """The low six bits of CTL do not move the reads, so the header is found and names the register."""
    image = build([IDENTIFY, IDENTIFY])
    moved = replace(image, **{register: getattr(image, register) + offset})
    runs = [moved.run(kernel(name)) for name in ("csim", "model")]
    assert (runs[0] == runs[1]).all()
    field = {"kv": "kv_base", "ctl": "ctl_base" if offset < 64 else "magic"}[register]
    status = image.statuses(runs[0])[0]
    assert (status["code"], status["detail"]) == (rm.Status.BAD_LIST, rm.LIST.offset[field])


def test_status_that_cannot_be_written_is_lost() -> None:
    image = build([IDENTIFY])
    memory = image.memory.copy()
    whole = [Region(image.base, memory)]
    kernel("csim").run(Masters(whole, whole, []), image.kv, image.ctl, image.out)
    assert (memory == image.memory).all()


@pytest.mark.parametrize(
    "memory",
    [np.zeros(256, np.uint8)[::2], np.frombuffer(bytes(256), np.uint8), np.zeros((2, 128), np.uint8)],
    ids=["strided", "read-only", "two dimensions"],
)
def test_region_that_the_kernel_could_not_use_is_refused(memory: np.ndarray) -> None:
    region = [Region(0, memory)]
    with pytest.raises(ValueError, match="contiguous, writable"):
        kernel("csim").run(Masters(region, region, region), 0, 0, 0)


def test_no_state_shows_what_lay_in_memory_before() -> None:
    """Outputs over two different poisons are the same bytes."""
    image = build([job(np.random.default_rng(5), 40, rows=64, head_size=80)])
    start = image.at(image.out)
    runs = []
    for poison in (0x00, 0xFF):
        memory = image.memory.copy()
        memory[start:] = poison
        kernel("csim").run(image.masters(memory), image.kv, image.ctl, image.out)
        out = image.at(image.placed[0]["out_addr"])
        runs.append(memory[out : out + 64 * (4 * 96 + 8)])
    assert (runs[0] == runs[1]).all()


def test_broken_assumption_is_an_exception(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy of the sources whose stream of dots is one element short: the checked build says so."""
    folder = tmp_path / "hls"
    shutil.copytree(builder.hls_folder(), folder)
    array = folder / "include" / "array.hpp"
    text = array.read_text()
    assert "hls::stream<Dots, TILE>" in text
    array.write_text(text.replace("hls::stream<Dots, TILE>", "hls::stream<Dots, TILE - 1>"))
    monkeypatch.setattr(builder, "hls_folder", lambda: folder)
    broken = CsimKernel(tmp_path / "cache", Variant.CHECKED)
    image = build([job(np.random.default_rng(1), 20)])
    with pytest.raises(KernelBroke, match="a stream overflows its depth"):
        image.run(broken)
