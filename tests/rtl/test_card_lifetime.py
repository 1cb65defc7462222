# SPDX-License-Identifier: Apache-2.0
"""Several Verilated kernels in one process come and go in any order."""

from __future__ import annotations

from itertools import permutations

import pytest
from nearkv_emulation.memory_model import Ddr4, Memory
from nearkv_emulation.rtl import RtlCard

from tests.support.rtl_tools import needs_verilator, patient

pytestmark = [needs_verilator, patient]


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_cards_close_in_any_order(order: tuple[int, ...]) -> None:
    """Closing one after a later one had gone waited for a lock of that one for ever."""
    cards = [RtlCard(seed) for seed in range(3)]
    cards[1].memory(Memory(Ddr4()))
    for index in order:
        cards[index].tick(20)
        cards[index].close()
    for card in cards:
        card.close()
