# SPDX-License-Identifier: Apache-2.0
"""Memory for direct I/O: where it begins, what is in it, and how what does not begin at a page is known."""

from __future__ import annotations

import numpy as np
import pytest
from nearkv_driver.aligned_memory import aligned_buffer, page_aligned
from nearkv_driver.regmap import PAGE_BYTES as PAGE


@pytest.mark.parametrize("nbytes", [1, 4096, 5000])
def test_aligned_buffers(nbytes: int) -> None:
    view = aligned_buffer(nbytes)
    assert view.nbytes == nbytes
    assert np.frombuffer(view, np.uint8).ctypes.data % PAGE == 0
    assert bytes(view) == bytes(nbytes)
    with pytest.raises(ValueError, match="0 bytes"):
        aligned_buffer(0)


def test_what_does_not_begin_at_a_page_is_told() -> None:
    view = aligned_buffer(2 * PAGE)
    assert page_aligned(view) == view
    assert page_aligned(view[PAGE:]) == view[PAGE:]
    assert page_aligned(view[1:]) is None
