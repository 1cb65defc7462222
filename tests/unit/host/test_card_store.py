# SPDX-License-Identifier: Apache-2.0
"""One card: rows go to flash, from there to card memory, and come back as they were; damage is named."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from nearkv.card_store import CardSequence, CardStore
from nearkv.volume import Volume
from nearkv.volume_errors import PageMismatch
from nearkv.volume_identity import VolumeIdentity
from nearkv_driver.device import NearDevice
from nearkv_driver.errors import OutOfDeviceMemory
from numpy.typing import NDArray

from tests.support.stores import layout


def opened(folder: Path, *, p2p: bool = True, head_size: int = 64, dram: str = "16M") -> CardStore:
    shape = layout(head_size=head_size)
    device = NearDevice.open(f"sw_emu:0?dram={dram}&kernel=model")
    volume = Volume(folder / "v", VolumeIdentity.of(shape, 0, 1), shape.slot_nbytes)
    return CardStore(device, volume, shape, p2p=p2p)


@pytest.fixture
def card(tmp_path: Path) -> Iterator[CardStore]:
    store = opened(tmp_path)
    yield store
    store.close()


def rows(card: CardStore, tokens: int, seed: int = 0) -> NDArray[np.float16]:
    return np.random.default_rng(seed).normal(size=(2, 2, tokens, card.layout.d_pad)).astype(np.float16)


def device_memory(sequence: CardSequence, extent: int) -> bytes:
    """The group as it lies in card memory."""
    run, nbytes = sequence.groups[extent].run, sequence.map.nbytes
    if run.pages.p2p:
        return bytes(run.pages.view(nbytes, run.offset))
    run.pages.sync_from_device(nbytes, run.offset)
    return run.pages.read(nbytes, run.offset)


@pytest.mark.parametrize("p2p", [True, False])
@pytest.mark.parametrize("head_size", [64, 80, 256])
def test_card_memory_and_host_get_what_was_written(tmp_path: Path, p2p: bool, head_size: int) -> None:
    card = opened(tmp_path, p2p=p2p, head_size=head_size)
    unit = card.layout.unit_tokens
    sequence = card.add((0, 1))
    first, tokens = unit, 256
    card.reserve(sequence, first + tokens)
    data = rows(card, tokens)
    card.write(sequence, 1, first, data)
    card.load(sequence, 1, first, tokens)
    np.testing.assert_array_equal(card.read(sequence, 1, first, tokens), data)
    for token in (first, 127, 128, first + tokens - 1):
        memory = device_memory(sequence, token // 128)
        for head in (0, 1):
            for kind in (0, 1):
                at = sequence.map.offset(1, head, value=bool(kind), token=token % 128)
                assert memory[at : at + card.layout.row_nbytes] == data[head, kind, token - first].tobytes()
    assert card.payload_written_nbytes == 4 * tokens * head_size * 2
    assert card.read_back_nbytes == data.nbytes
    card.close()


def test_a_page_that_changed_on_flash_is_named(card: CardStore) -> None:
    sequence = card.add((0, 1))
    card.reserve(sequence, 128)
    card.write(sequence, 0, 0, rows(card, 128))
    place = sequence.groups[0].place
    card.volume.write(place, sequence.map.offset(0, 1, value=True, token=64), bytes(4096))
    with pytest.raises(PageMismatch, match=r"data-000000\.pages: layer 0, KV head 1, V, extent 0, page 2"):
        card.read(sequence, 0, 0, 128)
    card.read(sequence, 0, 0, 64)


def test_removal_gives_everything_back(card: CardStore) -> None:
    before = card.volume.used_nbytes, card.dram_nbytes
    sequence = card.add((1,))
    card.reserve(sequence, 1000)
    assert card.volume.used_nbytes == 8 * card.layout.slot_nbytes
    card.trim(sequence, 3)
    assert card.volume.used_nbytes == 3 * card.layout.slot_nbytes
    card.remove(sequence, keep_pages=False)
    assert (card.volume.used_nbytes, card.dram_nbytes) == before


def test_a_card_that_is_full_says_so_and_can_go_on(tmp_path: Path) -> None:
    card = opened(tmp_path, dram="1M")
    sequence = card.add((0, 1))
    with pytest.raises(OutOfDeviceMemory, match=r"tokens .* of a sequence needs .* are available"):
        card.reserve(sequence, 100_000)
    used = len(sequence.groups)
    assert 0 < used < 10
    card.trim(sequence, 1)
    card.reserve(sequence, used * 128)
    card.close()
