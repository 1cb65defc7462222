# SPDX-License-Identifier: Apache-2.0
"""What the RTL kernel may leave otherwise than the NumPy model, and nothing more."""

from __future__ import annotations

import numpy as np
from nearkv_driver import regmap as rm
from numpy.typing import NDArray

from tests.support.jobs import Image, output_nbytes, padded, state_nbytes


def blank_failed_writes(image: Image, memory: NDArray[np.uint8]) -> None:
    """Outputs of a job that ended with `axi_write`: words behind the failed one were in flight and may be written."""
    for index, status in enumerate(image.statuses(memory)):
        if status["code"] != rm.Status.AXI_WRITE:
            continue
        spec, fields = image.jobs[index], image.placed[index]
        tail = len(spec.new.k) * padded(spec.head_size) * 2 if spec.new else 0
        state = state_nbytes(spec.rows, spec.head_size)
        sizes = {"tail_k_addr": tail, "tail_v_addr": tail, "state_out": state}
        sizes["out_addr"] = state if spec.raw else output_nbytes(spec.rows, spec.head_size)
        for name, nbytes in sizes.items():
            if name in fields:
                memory[image.at(fields[name]) :][:nbytes] = 0
