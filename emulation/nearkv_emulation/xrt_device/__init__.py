# SPDX-License-Identifier: Apache-2.0
"""The device behind XRT's hardware emulation: what the unmodified `libxrt_hwemu` talks to in place of a simulator.

`python -m nearkv_emulation.xrt_device` runs it (docs/xrt-emulation.md). It reads from an xclbin which banks and compute
units there are, and puts a `KernelModel` behind each unit. It starts no host program: see `nearkv_emulation.xrt_run`.
"""
