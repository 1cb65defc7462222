# SPDX-License-Identifier: Apache-2.0
"""Emulated cards with a kernel of the test's choice, and small jobs for them."""

from __future__ import annotations

from typing import Any

import numpy as np
from nearkv_driver.commands import AttendJob, segments
from nearkv_driver.device import NearDevice
from nearkv_driver.registry import parse_url
from nearkv_driver.sizes import padded
from nearkv_driver.transport import Buffer
from nearkv_emulation.card import EmulatedCard, card_info
from nearkv_emulation.kernel import Kernel

SMALL = "sw_emu:test?dram=16M&kernel=model"


def card_with(kernel: Kernel, url: str = SMALL) -> EmulatedCard:
    return EmulatedCard(card_info(parse_url(url)), kernel)


def job_over(buffer: Buffer | None, tokens: int = 128, head_size: int = 64, rows: int = 3, **changes: Any) -> AttendJob:
    """A job of one query token over `tokens` tokens, K at the start of `buffer` and V behind; no buffer, no segment."""
    d_pad = padded(head_size)
    table = segments()
    if buffer is not None:
        table = segments([(tokens, 0, buffer.address, buffer.address + tokens * d_pad * 2, 0)])
    values: dict[str, Any] = {
        "head_size": head_size,
        "q": np.random.default_rng(1).normal(size=(rows, head_size)).astype(np.float32),
        "limits": ((0, tokens),),
        "scale": head_size**-0.5,
        "segments": table,
    }
    return AttendJob(**{**values, **changes})


def stored(device: NearDevice, tokens: int = 128, head_size: int = 64, seed: int = 3) -> tuple[Buffer, Any, Any]:
    """A buffer with K and V of `tokens` random tokens as `job_over` expects it, and both."""
    rng = np.random.default_rng(seed)
    k, v = (rng.normal(size=(tokens, head_size)).astype(np.float16) for _ in range(2))
    rows = np.zeros((2, tokens, padded(head_size)), np.float16)
    rows[0, :, :head_size], rows[1, :, :head_size] = k, v
    buffer = device.alloc(rows.nbytes)
    device.upload(buffer, rows.tobytes())
    return buffer, k, v
