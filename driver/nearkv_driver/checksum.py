# SPDX-License-Identifier: Apache-2.0
"""CRC-32C, as the kernel checks it on every page that it reads."""

from __future__ import annotations

import google_crc32c
import numpy as np
from numpy.typing import NDArray

from nearkv_driver.regmap import PAGE_BYTES

Data = bytes | bytearray | memoryview | NDArray[np.generic]


def crc32c(data: Data) -> int:
    """CRC-32C (Castagnoli) of all bytes of `data`."""
    return int(google_crc32c.value(_bytes(data)))


def page_crcs(data: Data) -> NDArray[np.uint32]:
    """CRC-32C of each 4096-byte page; ValueError when `data` is not whole pages."""
    flat = _bytes(data)
    if len(flat) % PAGE_BYTES:
        raise ValueError(f"{len(flat)} bytes are not whole pages of {PAGE_BYTES}")
    return np.array([google_crc32c.value(page) for page in flat.reshape(-1, PAGE_BYTES)], np.uint32)


def _bytes(data: Data) -> NDArray[np.uint8]:
    # The library takes arrays, but no writable bytes-like objects.
    if isinstance(data, np.ndarray):
        return np.ascontiguousarray(data).reshape(-1).view(np.uint8)
    return np.frombuffer(data, np.uint8)
