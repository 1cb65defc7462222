# SPDX-License-Identifier: Apache-2.0
"""The implementations of the kernel contract, by name, for tests that every one of them must pass."""

from __future__ import annotations

from functools import cache

from nearkv_emulation.csim import CsimKernel
from nearkv_emulation.kernel import Kernel
from nearkv_emulation.model import ModelKernel

IMPLEMENTATIONS = ("model", "csim")


@cache
def kernel(name: str) -> Kernel:
    """One shared instance: kernels keep nothing between runs, and tests would notice if one did."""
    if name == "model":
        return ModelKernel()
    return CsimKernel()
