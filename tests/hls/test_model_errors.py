# SPDX-License-Identifier: Apache-2.0
"""Every refusal and every fault, on every implementation: the status names it and nothing else is written."""

from __future__ import annotations

import numpy as np
import pytest
from nearkv_driver import regmap as rm

from tests.support.jobs import comparable, output_nbytes
from tests.support.kernels import IMPLEMENTATIONS, kernel
from tests.support.mutations import DESCRIPTOR_GROUPS, NA, Broken, sound
from tests.support.mutations_data import DATA_GROUPS, saturated

IMAGE = sound()
CASES = [broken for group in (*DESCRIPTOR_GROUPS, *DATA_GROUPS) for broken in group(IMAGE)]
SPOKEN = {
    rm.Status.BAD_LIST: {"detail"},
    rm.Status.BAD_JOB: {"detail"},
    rm.Status.BAD_LIMIT: {"position", "detail"},
    rm.Status.BAD_SEGMENT: {"segment", "detail"},
    rm.Status.CRC_MISMATCH: {"segment", "page", "kind"},
    rm.Status.NONFINITE_KV: {"segment", "kind", "position"},
    rm.Status.NONFINITE_Q: {"kind", "position"},
    rm.Status.BAD_STATE: {"kind", "position"},
    rm.Status.AXI_READ: {"detail", "address"},
    rm.Status.AXI_WRITE: {"detail", "address"},
}


def full_status(broken: Broken) -> dict[str, int]:
    """All fields of the expected status but `cycles`."""
    silent = dict.fromkeys(("segment", "page", "kind", "position", "detail"), NA)
    zero = {"flags": 0, "beats": 0, "address": 0}
    assert broken.expected.keys() - {"beats"} == SPOKEN[broken.code]
    return {"code": broken.code, "job": broken.job} | silent | zero | broken.expected


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_the_image_that_is_broken_is_sound(implementation: str) -> None:
    memory = IMAGE.run(kernel(implementation))
    assert [status["code"] for status in IMAGE.statuses(memory)] == [rm.Status.OK] * 3
    assert IMAGE.statuses(memory)[1]["flags"] == 0


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@pytest.mark.parametrize("broken", CASES, ids=lambda broken: broken.name)
def test_a_fault_is_named(implementation: str, broken: Broken) -> None:
    image = broken.image
    memory = image.run(kernel(implementation))
    statuses = image.statuses(memory)
    failed = 0 if broken.job == NA else broken.job
    found = {name: value for name, value in statuses[failed].items() if name != "cycles"}
    assert found == full_status(broken)
    for index, status in enumerate(statuses):
        if index < failed:
            assert status["code"] == rm.Status.OK
        elif index > failed and broken.job != NA:
            silent = dict.fromkeys(("segment", "page", "kind", "position", "detail"), NA)
            zero = {"flags": 0, "cycles": 0, "beats": 0, "address": 0}
            assert status == {"code": rm.Status.NOT_RUN, "job": index} | silent | zero

    # What the jobs before it wrote, its status and the later ones': nothing else.
    untouched = np.ones(len(memory), bool)
    start = image.at(image.out)
    untouched[start : start + 64 * (1 if broken.job == NA else 3)] = False
    for job in range(failed):
        spec, at = image.jobs[job], image.at(image.placed[job]["out_addr"])
        untouched[at : at + output_nbytes(spec.rows, spec.head_size)] = False
    if broken.code != rm.Status.AXI_WRITE:
        assert np.array_equal(memory[untouched], image.memory[untouched])


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_a_saturated_score_is_told(implementation: str) -> None:
    image = saturated(IMAGE)
    memory = image.run(kernel(implementation))
    assert [status["flags"] for status in image.statuses(memory)] == [0, rm.StatusFlag.SATURATED, 0]


@pytest.mark.parametrize("broken", CASES, ids=lambda broken: broken.name)
def test_faults_leave_the_same_bytes_in_every_implementation(broken: Broken) -> None:
    first, *others = (comparable(broken.image, broken.image.run(kernel(name))) for name in IMPLEMENTATIONS)
    assert all(np.array_equal(first, other) for other in others)
