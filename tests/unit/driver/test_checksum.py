# SPDX-License-Identifier: Apache-2.0
"""CRC-32C against its published check value and a bitwise form of the contract's polynomial."""

from __future__ import annotations

import numpy as np
import pytest
from nearkv_driver.checksum import Data, crc32c, page_crcs
from nearkv_driver.regmap import CRC_POLY


def bitwise(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (CRC_POLY if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


@pytest.mark.parametrize("form", [bytes, bytearray, memoryview, lambda b: np.frombuffer(b, np.uint8)])
def test_the_check_value(form: type[bytes]) -> None:
    assert crc32c(form(b"123456789")) == 0xE3069283


def test_the_polynomial_is_that_of_the_contract() -> None:
    data = np.random.default_rng(5).integers(0, 256, 300, dtype=np.uint8).tobytes()
    assert crc32c(data) == bitwise(data)
    assert crc32c(b"") == 0


def test_each_page_has_its_own() -> None:
    pages = np.random.default_rng(6).integers(0, 256, (3, 4096), dtype=np.uint8)
    want = [crc32c(page.tobytes()) for page in pages]
    forms: list[Data] = [pages, pages.tobytes(), memoryview(pages.tobytes()), pages.view(np.float16)]
    for form in forms:
        assert page_crcs(form).tolist() == want
    assert page_crcs(pages).dtype == np.uint32
    assert page_crcs(b"").tolist() == []


def test_parts_of_pages_are_refused() -> None:
    with pytest.raises(ValueError, match="4095 bytes are not whole pages"):
        page_crcs(bytes(4095))
