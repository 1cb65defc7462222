# SPDX-License-Identifier: Apache-2.0
"""Small inputs whose answers are known without a computer, on every implementation of the kernel."""

from __future__ import annotations

import math

import numpy as np
import pytest
from nearkv import reference
from nearkv_driver import regmap as rm

from tests.support.jobs import IDENTIFY, Job, Segment, build, output_nbytes, padded, state_nbytes
from tests.support.kernels import IMPLEMENTATIONS, kernel
from tests.support.random_jobs import half, random_image, random_q

pytestmark = pytest.mark.parametrize("implementation", IMPLEMENTATIONS)


def attended(implementation: str, job: Job) -> tuple[np.ndarray, np.ndarray]:
    """(out, lse) of one job, as the host derives them."""
    image = build([job])
    memory = image.run(kernel(implementation))
    assert image.statuses(memory)[0]["code"] == rm.Status.OK
    o, weight, t = image.output(memory, 0)
    empty = t == rm.EMPTY_T
    total = np.where(empty, 1, weight).astype(np.float64)
    lse = np.where(empty, -np.inf, (np.log2(total) + 32.0 * t) * math.log(2))
    return o / total[:, None], lse


def counting(tokens: int, head_size: int = 64, first: int = 0) -> Segment:
    """V[j] = j at every element; K is not zero, for q is."""
    v = np.repeat(np.arange(first, first + tokens, dtype=np.float16)[:, None], head_size, axis=1)
    return Segment(first, np.ones_like(v), v)


def zero_q(rows: int, head_size: int = 64) -> np.ndarray:
    return np.zeros((rows, head_size), np.float32)


def test_a_row_without_tokens_gives_zeros_and_minus_infinity(implementation: str) -> None:
    for segments, limits in (([], (0, 0)), ([counting(7)], (0, 0)), ([counting(7)], (7, 100)), ([counting(7)], (5, 3))):
        out, lse = attended(implementation, Job(zero_q(2) + 3, [limits], 0.125, segments))
        assert not out.any()
        assert np.isneginf(lse).all()
    # The next token, sent with the same job, is seen.
    nine = counting(1, first=9)
    new = Segment(0, nine.k, nine.v)
    out, _ = attended(implementation, Job(zero_q(2), [(0, 1)], 0.125, [], new=new))
    assert np.allclose(out, 9)


@pytest.mark.parametrize("head_size", rm.HEAD_SIZES)
@pytest.mark.parametrize("tokens", [1, 15, 16, 17, 100])
def test_every_head_size_and_nan_in_its_padding(implementation: str, head_size: int, tokens: int) -> None:
    """The builder fills padding of q, K and V with NaN."""
    rng = np.random.default_rng(4)
    q = rng.normal(size=(2, head_size)).astype(np.float32)
    k, v = (rng.normal(size=(tokens, head_size)).astype(np.float16) for _ in range(2))
    scale = head_size**-0.5
    out, lse = attended(implementation, Job(q, [(0, tokens)], scale, [Segment(0, k, v, checked=True)]))
    exact, exact_lse = reference.attend_head(q, k, v, scale=scale)
    assert np.abs(out - exact).max() < 1e-6
    assert np.abs(lse - exact_lse).max() < 1e-6


@pytest.mark.parametrize("position", [1, 16, 128, 5008])
def test_scores_beyond_the_fp16_range(implementation: str, position: int) -> None:
    """Raw product 115200; the two keys in one tile, in two, in two blocks, far apart in different pages."""
    one = np.full((1, 128), 30, np.float16)
    a, b = Segment(0, one, one * 0 + np.float16(1.5)), Segment(position, -one, one * 0 - np.float16(7))
    job = Job(one.astype(np.float32), [(0, position + 1)], 128**-0.5, [a, b])
    for segments in [(a, b)] if position % 16 else [(a, b), (b, a)]:
        out, lse = attended(implementation, Job(job.q, job.limits, job.scale, segments))
        assert (out == 1.5).all()
        assert abs(lse[0] - 115200 * 128**-0.5) < 0.01


def test_several_new_tokens_see_up_to_themselves(implementation: str) -> None:
    cached, new = counting(7), counting(3, first=7)
    limits = [(0, 8), (0, 9), (0, 10)]
    out, _ = attended(implementation, Job(zero_q(3), limits, 0.125, [cached], new=new))
    assert np.allclose(out, np.array([3.5, 4.0, 4.5])[:, None], rtol=1e-6)
    for i in range(3):
        cached, new = counting(7 + i), counting(1, first=7 + i)
        alone, _ = attended(implementation, Job(zero_q(1), [(0, 8 + i)], 0.125, [cached], new=new))
        assert np.array_equal(alone[0], out[i])


def test_several_new_tokens_over_a_page_border(implementation: str) -> None:
    """32 tokens of 128 bytes fill a page."""
    cached = [counting(32), counting(31, first=32)]
    new = counting(3, first=63)
    out, _ = attended(implementation, Job(zero_q(3), [(0, 64), (0, 65), (0, 66)], 0.125, cached, new=new))
    assert np.allclose(out, np.array([31.5, 32.0, 32.5])[:, None], rtol=1e-6)


def test_window_edges(implementation: str) -> None:
    out, _ = attended(implementation, Job(zero_q(1), [(0, 10)], 0.125, [counting(10)], window=4))
    assert np.allclose(out, 7.5, rtol=1e-6)
    limits = [(0, i + 1) for i in range(10)]
    out, _ = attended(implementation, Job(zero_q(10), limits, 0.125, [], new=counting(10), window=4))
    means = [np.arange(max(0, i - 3), i + 1).mean() for i in range(10)]
    assert np.allclose(out, np.array(means)[:, None], rtol=1e-6)
    for tokens in (3, 4, 5):
        job = Job(zero_q(1), [(0, tokens + 1)], 0.125, [counting(tokens)], new=counting(1, first=tokens), window=4)
        out, _ = attended(implementation, job)
        assert np.allclose(out, np.arange(max(0, tokens - 3), tokens + 1).mean(), rtol=1e-6)


def test_runs_do_not_remember_each_other(implementation: str) -> None:
    """Lengths 64, 1, 17, 64 on one kernel, over memory that holds something else each time."""
    rng = np.random.default_rng(35)
    k, v, q = half(rng, 64, 64), half(rng, 64, 64), random_q(rng, 3, 64)
    lengths = (64, 1, 17, 64)
    results: list[tuple[bytes, ...]] = []
    for seed in range(20):
        noise = np.random.default_rng(seed)
        once = []
        for tokens in lengths:
            image = build([Job(q, [(0, tokens)], 0.125, [Segment(0, k[:tokens], v[:tokens])], state_out=True)])
            start = image.at(image.out)
            image.memory[start:] = noise.integers(0, 256, len(image.memory) - start)
            memory = image.run(kernel(implementation))
            once.append(image.state(memory, 0) + image.output(memory, 0)[0].tobytes())
        results.append(tuple(once))
    assert len(set(results)) == 1
    assert results[0][3] == results[0][0]


def test_nothing_is_written_but_results(implementation: str) -> None:
    """Every byte of memory that no descriptor names stays as it was."""
    for seed in range(40):
        image = random_image(np.random.default_rng(seed), max_tokens=150)
        memory = image.run(kernel(implementation))
        written = np.zeros(len(memory), bool)
        for index, (job, f) in enumerate(zip(image.jobs, image.placed, strict=True)):
            written[image.at(image.out) + 64 * index :][:64] = True
            for name, nbytes in _outputs(job):
                if f.get(name):
                    written[image.at(f[name]) :][:nbytes] = True
        assert np.array_equal(memory[~written], image.memory[~written]), f"seed {seed}"


def _outputs(job: Job) -> list[tuple[str, int]]:
    if job.identify:
        return [("out_addr", rm.IDENTITY.nbytes)]
    state = state_nbytes(job.rows, job.head_size)
    output = state if job.raw else output_nbytes(job.rows, job.head_size)
    tail = 2 * padded(job.head_size) * len(job.new.k) if job.new else 0
    return [("out_addr", output), ("state_out", state), ("tail_k_addr", tail), ("tail_v_addr", tail)]


def test_new_rows_are_copied_to_the_tail_byte_for_byte(implementation: str) -> None:
    rng = np.random.default_rng(3)
    new = Segment(16, half(rng, 5, 80), half(rng, 5, 80))
    image = build([Job(random_q(rng, 1, 80), [(0, 21)], 0.1, [], new=new, tail=True)])
    memory, f = image.run(kernel(implementation)), image.placed[0]
    for source, copy in (("new_k_addr", "tail_k_addr"), ("new_v_addr", "tail_v_addr")):
        a, b = image.at(f[source]), image.at(f[copy])
        assert np.array_equal(memory[a : a + 5 * 192], memory[b : b + 5 * 192])


def test_identify_names_the_contract(implementation: str) -> None:
    image = build([IDENTIFY, IDENTIFY])
    memory = image.run(kernel(implementation))
    start = image.at(image.placed[1]["out_addr"])
    block = rm.IDENTITY.unpack(memory[start : start + 64].tobytes())
    expected = {"model": rm.Implementation.MODEL, "csim": rm.Implementation.HLS}
    assert block["magic"] == rm.IDENTITY_MAGIC
    assert block["regmap_hash"] == rm.REGMAP_HASH
    assert block["implementation"] == expected[implementation]
    assert block["head_sizes"] == 2 ** len(rm.HEAD_SIZES) - 1
    assert block["opcodes"] == 0b110
