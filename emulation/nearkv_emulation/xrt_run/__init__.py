# SPDX-License-Identifier: Apache-2.0
"""Runs a program that uses XRT against emulated cards: `nearkv xrt-emulate` (docs/xrt-emulation.md).

Sets up what XRT's emulation wants to find, starts program and device processes, and sees that all of them end. What a
device process does is in `nearkv_emulation.xrt_device`.
"""
