# SPDX-License-Identifier: Apache-2.0
"""Makes the golden vectors: `python -m tests.vectors.make_vectors` from the repository's root.

Results come from the NumPy model. The file is frozen: a new feature gets a new file, and this one changes only with the
contract's version.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
from nearkv_driver import regmap as rm
from nearkv_emulation.model import ModelKernel
from numpy.typing import NDArray

from tests.support.jobs import IDENTIFY, Image, Job, Segment, build, padded, poke
from tests.support.mutations import DESCRIPTOR_GROUPS, sound
from tests.support.mutations_data import DATA_GROUPS, saturated
from tests.support.vectors import PATH, Vector, save

SEED = 1


class Maker:
    """Draws operands with few distinct values, which compress well; the arithmetic does not care."""

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)

    def rows(self, n: int, d: int, unit: float = 0.25) -> NDArray[np.float16]:
        return (self._rng.integers(-8, 9, (n, d)) * unit).astype(np.float16)

    def segment(self, first: int, n: int, d: int, *, unit: float = 0.25, offset: int | None = None) -> Segment:
        """Checked when an offset in its first page is given."""
        k, v = self.rows(n, d, unit), self.rows(n, d, unit)
        return Segment(first, k, v, offset is not None, offset or 0)

    def q(self, n: int, d: int) -> NDArray[np.float32]:
        return self.rows(n, d).astype(np.float32)

    def job(self, d: int, n: int, rows: int = 2) -> Job:
        """`rows` rows of one query token over `n` tokens."""
        return Job(self.q(rows, d), [(0, n)], d**-0.5, [self.segment(0, n, d)] if n else [])


def features() -> Iterator[tuple[str, Image]]:
    """One image per feature."""
    make = Maker(SEED)
    for d in rm.HEAD_SIZES:
        yield f"head-size-{d}", build([replace(make.job(d, 21), segments=[make.segment(0, 21, d, offset=0)])])
    for rows in (1, 3, 7, 8, 9, 63, 64):
        yield f"rows-{rows}", build([make.job(64, 18, rows)])
    causal = replace(make.job(64, 20, 10), limits=[(0, 18), (0, 19), (2, 20), (0, 0), (19, 3)])
    yield "query-tokens", build([causal])
    all_tokens = replace(make.job(64, 20, 64), limits=[(0, i % 21) for i in range(64)])
    yield "query-tokens-64", build([all_tokens])
    yield "window", build([replace(causal, window=4), replace(causal, window=17), replace(causal, window=1)])
    yield "jobs", build([make.job(64, 3), make.job(128, 5), IDENTIFY, make.job(80, 2, 1)], tight=True)
    yield "jobs-other-base", build([make.job(96, 9)], base=0x1_0000_0000 - 8192)
    pieces = [make.segment(first, n, 64) for first, n in ((144, 20), (0, 17), (17, 31), (48, 1), (64, 64), (128, 16))]
    yield "segments-any-order", build([replace(make.job(64, 0), segments=pieces, limits=[(0, 164)])])
    askew = [make.segment(0, 70, 64, offset=4032), make.segment(70, 100, 64, offset=64), make.segment(170, 1, 64)]
    yield "pages-unaligned", build([replace(make.job(64, 0), segments=askew, limits=[(0, 171)])])
    straddling = [make.segment(112, 150, 80, offset=3520)]
    yield "pages-straddle-visits", build([replace(make.job(80, 0), segments=straddling, limits=[(0, 262)])])
    mixed = [make.segment(0, 5, 256, offset=512), make.segment(5, 4, 256)]
    yield "pages-checked-and-not", build([replace(make.job(256, 0), segments=mixed, limits=[(0, 9)])])
    new = replace(make.job(112, 20, 3), limits=[(0, 21), (0, 22), (0, 23)], new=make.segment(20, 3, 112))
    yield "new-rows", build([new])
    yield "new-rows-tail", build([replace(new, tail=True)])
    yield "new-rows-only", build([replace(new, segments=[], new=make.segment(4096, 64, 112), limits=[(0, 5000)] * 3)])
    whole = replace(make.job(64, 0), limits=[(0, 96)], state_out=True)
    waves = [make.segment(first, 32, 64) for first in (64, 0, 32)]
    chain = [replace(whole, segments=[s], state_in=i - 1 if i else None) for i, s in enumerate(waves)]
    yield "waves", build(chain)
    yield "waves-in-one", build([replace(whole, segments=waves)])
    full = sound()
    yield "state-in", build([replace(full.jobs[1], tail=False)])
    yield "raw", build([replace(make.job(80, 19), raw=True, state_out=True)])
    yield "verify-only", build([replace(make.job(64, 0), segments=[make.segment(0, 40, 64, offset=0)], output=False)])
    yield "empty", build([make.job(64, 0), replace(make.job(64, 0), raw=True)])
    yield "nothing-visible", build([replace(make.job(64, 20), limits=[(5, 5)]), make.job(64, 1)])
    late = rm.POSITIONS_MAX - 20
    high = make.segment(late - late % 16, 16 + late % 16, 64)
    yield "last-positions", build([replace(make.job(64, 0), segments=[high], limits=[(0, rm.POSITIONS_MAX)])])
    yield from special_values(make)


def special_values(make: Maker) -> Iterator[tuple[str, Image]]:
    """Values at the ends of the formats."""
    tiny = 2.0**-24
    small = [make.segment(0, 20, 64, unit=tiny)]
    yield "subnormal-k-v", build([replace(make.job(64, 20), segments=small, scale=2.0**18)])
    fp32 = make.q(2, 64) * np.float32(2.0**-147)
    yield "subnormal-q", build([replace(make.job(64, 20), q=fp32, scale=2.0**100)])
    largest = make.rows(20, 64) * np.float16(32752)
    yield "largest-k-v", build([replace(make.job(64, 20), segments=[Segment(0, largest, largest)])])
    zeros = np.zeros((20, 64), np.float16)
    some = make.rows(20, 64, unit=2.0**-20)
    some[::3] = 0
    yield "zero-rows", build([replace(make.job(64, 20), segments=[Segment(0, zeros, some)])])
    yield "zero-q", build([replace(make.job(64, 20), q=np.zeros((2, 64), np.float32))])
    spread = make.rows(48, 64)
    spread *= np.repeat(np.array([2.0**-14, 1, 16], np.float16), 16)[:, None]
    rising = Segment(0, spread, make.rows(48, 64))
    yield "rising-top-bin", build([replace(make.job(64, 48, 4), segments=[rising], scale=2.0)])
    yield "saturated", saturated(sound())
    padding = build([make.job(80, 20)])
    for name, row in (("q_addr", 96 * 4), ("k", 192), ("v", 192)):
        where = padding.placed[0]["q_addr"] if name == "q_addr" else _segment_address(padding, name)
        start = where + 80 * row // padded(80)
        infinite = np.array([np.inf, -np.inf], np.float32 if name == "q_addr" else np.float16)
        padding = poke(padding, start, infinite.tobytes())
    yield "infinite-padding", padding
    yield "identify", build([IDENTIFY])


def _segment_address(image: Image, name: str) -> int:
    at = image.at(image.placed[0]["segments_addr"])
    return rm.SEGMENT.unpack(image.memory[at : at + rm.SEGMENT.nbytes].tobytes())[f"{name}_addr"]


def masked(image: Image) -> tuple[tuple[int, int], ...]:
    """What may differ between implementations: cycles, and in an identity block who they are."""
    found = []
    for job, fields in enumerate(image.placed):
        found.append((image.at(image.out) + rm.STATUS.nbytes * job + rm.STATUS.offset["cycles"], 8))
        if image.jobs[job].identify:
            start = image.at(fields["out_addr"])
            found += [(start + rm.IDENTITY.offset[name], 4) for name in ("implementation", "build")]
    return tuple(found)


def vector(name: str, image: Image) -> Vector:
    return Vector(name, image, image.run(ModelKernel()), masked(image))


def vectors() -> list[tuple[str, Vector]]:
    """Every vector, with the name of the image that it is stored as a difference to."""
    made = [(name, vector(name, image)) for name, image in features()]
    image = sound()
    made.append(("sound", vector("sound", image)))
    groups = (*DESCRIPTOR_GROUPS, *DATA_GROUPS)
    made += [("sound", vector(broken.name, broken.image)) for group in groups for broken in group(image)]
    return made


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Make the golden vectors of the kernel contract.")
    parser.add_argument("--output", type=Path, default=PATH, help="file to write")
    save(parser.parse_args(argv).output, vectors())


if __name__ == "__main__":
    main()
