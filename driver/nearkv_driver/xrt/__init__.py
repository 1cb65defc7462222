# SPDX-License-Identifier: Apache-2.0
"""The `xrt:` card: a real card, or XRT's emulation of one, through pyxrt or through nearkv's own binding of XRT.

`opening` finds and judges a card, `card` drives it. XRT itself is touched by `pyxrt_api` and `native_api`
only; for `pynq:` cards, by `nearkv_driver.pynq`.
"""

from nearkv_driver.xrt.opening import open_card

__all__ = ["open_card"]
