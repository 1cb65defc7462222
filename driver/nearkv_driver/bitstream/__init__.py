# SPDX-License-Identifier: Apache-2.0
"""Makes an xclbin of the kernel with the vendor's Vitis: finds the tools, plans and runs the steps, judges the result.

Opens no card. Every module but `runner` and `build` works without Vitis.
"""

from nearkv_driver.bitstream.build import Outcome, build
from nearkv_driver.bitstream.environment import read_environment
from nearkv_driver.bitstream.errors import (
    BitstreamError,
    BuildRefused,
    ConfigRefused,
    ResultRefused,
    StepFailed,
    ToolUnusable,
)
from nearkv_driver.bitstream.plan import Plan, make_plan
from nearkv_driver.bitstream.platforms import load_platforms
from nearkv_driver.bitstream.request import Flow, Request, Target

__all__ = [
    "BitstreamError",
    "BuildRefused",
    "ConfigRefused",
    "Flow",
    "Outcome",
    "Plan",
    "Request",
    "ResultRefused",
    "StepFailed",
    "Target",
    "ToolUnusable",
    "build",
    "load_platforms",
    "make_plan",
    "read_environment",
]
