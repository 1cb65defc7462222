# SPDX-License-Identifier: Apache-2.0
"""A store on simulated RTL: the answers of the oracle from resident and streamed pages, and a card that hangs."""

from __future__ import annotations

from pathlib import Path

import pytest
from nearkv.kvstore import KVStore
from nearkv_driver.errors import DeviceTimeout, DriverError

from tests.support.rtl_tools import needs_verilator, patient
from tests.support.stores import Mirror, layout

pytestmark = [needs_verilator, patient]


def urls(count: int, folder: Path, options: str = "") -> list[str]:
    return [f"hw_emu:{i}?dram=64M&ssd={folder}/card{i}{options}" for i in range(count)]


@pytest.mark.parametrize(
    ("cards", "options"),
    [
        (1, ""),
        (2, "&memory=ddr4-2400&stall=10&reorder=10"),
        (1, "&resident=0&staging=256K&memory=ddr4-2400"),
        (2, "&p2p=bounce&resident=0"),
    ],
)
def test_a_sequence_of_steps(tmp_path: Path, cards: int, options: str) -> None:
    with KVStore.open(layout(), urls(cards, tmp_path, options)) as store:
        mirror = Mirror(store)
        sequences = [mirror.add(), mirror.add()]
        mirror.append(sequences, 300)
        for _ in range(3):
            mirror.step(sequences)
        mirror.crop(sequences[0], 200)
        mirror.step(sequences, window=64)
        for sequence in sequences:
            mirror.check_rows(sequence)
        stats = store.stats()
    for card in stats.cards:
        assert (card.simulated, card.clock_hz) == (True, 300_000_000)
        assert card.kernel_cycles > card.kernel_beats > 0
        assert (card.streamed_nbytes > 0) == ("resident=0" in options)


def test_a_card_that_hangs_stops_the_store_and_another_one_goes_on(tmp_path: Path) -> None:
    """A limit of 3000 cycles is none for 100 tokens and too low for 1000."""
    with KVStore.open(layout(), urls(1, tmp_path, "&timeout_cycles=3000")) as store:
        mirror = Mirror(store)
        sequence = mirror.add("kept")
        mirror.append([sequence], 100)
        mirror.step([sequence])
        mirror.append([sequence], 923)
        store.flush()
        length = store.length(sequence)
        q, k, v = mirror.draw(1, 1)
        with pytest.raises(DeviceTimeout, match=r"hw_emu:0\S*: nearkv_attend: no end after 3000 cycles"):
            store.attend(0, [sequence], q, k, v, scale=1.0)
        assert store.length(sequence) == length
        with pytest.raises(DriverError, match="did not end in time; open it again"):
            store.attend(0, [sequence], q, k, v, scale=1.0)
        kept = mirror.rows
    with KVStore.open(layout(), urls(1, tmp_path)) as store:
        mirror = Mirror(store, seed=1)
        again = store.open_sequence("kept")
        mirror.rows = {(again, layer): rows for (_, layer), rows in kept.items()}
        assert store.length(again) == length
        mirror.check_rows(again)
        mirror.step([again])
