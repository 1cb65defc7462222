# SPDX-License-Identifier: Apache-2.0
"""The golden vectors are what they were, cover what they should, and every implementation replays them."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
from nearkv_driver import regmap as rm

from tests.support.kernels import IMPLEMENTATIONS, kernel
from tests.support.vectors import PATH, Vector, load, replay
from tests.vectors.make_vectors import vectors

SHA256 = "1f493e4e271927e0a663e11018a0510637240991bc362e7ecb005d9b4f3852b6"
VECTORS = load()


def test_the_file_is_frozen() -> None:
    assert hashlib.sha256(PATH.read_bytes()).hexdigest() == SHA256


def test_the_script_still_makes_the_same_vectors() -> None:
    made = [vector for _, vector in vectors()]
    assert [vector.name for vector in made] == [vector.name for vector in VECTORS]
    for now, frozen in zip(made, VECTORS, strict=True):
        assert np.array_equal(now.image.memory, frozen.image.memory), now.name
        assert now.masked == frozen.masked, now.name
        keep = np.ones(len(now.after), bool)
        for at, nbytes in now.masked:
            keep[at : at + nbytes] = False
        assert np.array_equal(now.after[keep], frozen.after[keep]), now.name


def test_there_is_a_vector_for_every_status_and_head_size() -> None:
    codes, sizes = set(), set()
    for vector in VECTORS:
        out, ctl = (vector.image.at(address) for address in (vector.image.out, vector.image.ctl))
        codes |= {int(code) for code in vector.after[out : out + 3 * 64].view(np.uint32)[::16]}
        jobs = vector.image.memory[ctl + rm.LIST.nbytes :][: rm.JOB.nbytes]
        sizes.add(rm.JOB.unpack(jobs.tobytes())["head_size"])
    assert codes >= set(rm.Status)
    assert sizes >= set(rm.HEAD_SIZES)


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_replay(implementation: str) -> None:
    assert replay(kernel(implementation), VECTORS) == {}


def test_replay_tells_a_wrong_byte() -> None:
    vector = VECTORS[0]
    after = vector.after.copy()
    after[vector.image.at(vector.image.out)] ^= 1
    wrong = replay(kernel("model"), [Vector(vector.name, vector.image, after, vector.masked)])
    assert wrong == {vector.name: f"1 bytes differ, the first at {vector.image.out:#x}"}
