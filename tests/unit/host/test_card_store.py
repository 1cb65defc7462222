# SPDX-License-Identifier: Apache-2.0
"""One card: rows go to flash, from there to card memory, and come back as they were; damage is named."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from nearkv.card_sequence import CardSequence
from nearkv.card_store import CardStore
from nearkv.volume import Volume
from nearkv.volume_errors import PageMismatch
from nearkv.volume_identity import VolumeIdentity
from nearkv_driver.device import NearDevice
from nearkv_driver.errors import OutOfDeviceMemory
from numpy.typing import NDArray

from tests.support.stores import card_store, layout


def opened(folder: Path, *, p2p: bool = True, head_size: int = 64, dram: str = "16M") -> CardStore:
    shape = layout(head_size=head_size)
    device = NearDevice.open(f"sw_emu:0?dram={dram}&kernel=model")
    volume = Volume(folder / "v", VolumeIdentity.of(shape, 0, 1), shape.slot_nbytes)
    return card_store(device, volume, shape, p2p=p2p)


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
    assert run is not None
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


def test_extents_beyond_the_memory_stay_on_flash(tmp_path: Path) -> None:
    card = opened(tmp_path, dram="1M")
    sequence = card.add((0, 1))
    card.reserve(sequence, 10 * 128)
    resident = [group.run is not None for group in sequence.groups]
    assert resident == sorted(resident, reverse=True)  # the first that came
    assert 0 < sum(resident) < 10
    card.write(sequence, 0, 9 * 128, rows(card, 128))
    card.load(sequence, 0, 9 * 128, 128)
    card.upload_crcs(sequence, 9 * 128, 128)
    np.testing.assert_array_equal(card.read(sequence, 0, 9 * 128, 128), rows(card, 128))
    card.trim(sequence, 0)
    card.reserve(sequence, 10 * 128)
    assert [group.run is not None for group in sequence.groups] == resident
    card.close()


def test_a_tail_goes_before_extents_and_a_card_full_of_tails_says_so(tmp_path: Path) -> None:
    card = opened(tmp_path, dram="2M")
    first = card.add((0, 1))
    card.reserve(first, 20 * 128)
    sequences = [card.add((0, 1)) for _ in range(3)]
    with pytest.raises(OutOfDeviceMemory, match=r"the tail of a new sequence needs .* are free"):
        sequences += [card.add((0, 1)) for _ in range(10)]
    assert [group.run for group in first.groups] == [None] * 20
    for sequence in card.sequences[1:]:
        card.remove(sequence, keep_pages=False)
    card.reserve(first, 21 * 128)
    assert first.groups[20].run is not None
    card.close()


def test_pages_that_are_written_again_are_other_pages(card: CardStore) -> None:
    sequence = card.add((0, 1))
    card.reserve(sequence, 128)
    (group,) = sequence.groups
    card.write(sequence, 0, 0, rows(card, 64))
    card.write(sequence, 1, 0, rows(card, 64))
    card.write(sequence, 0, 64, rows(card, 32))
    assert group.version == 0
    card.write(sequence, 0, 64, rows(card, 32))
    assert group.version == 1
    card.write(sequence, 0, 96, rows(card, 32))
    assert group.version == 1
