# SPDX-License-Identifier: Apache-2.0
"""Opens a store's cards and volumes, checks before the first write that they belong together. Nothing after that."""

from __future__ import annotations

import secrets
import shutil
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path

from nearkv_driver.device import NearDevice
from nearkv_driver.errors import TransportUnavailable
from nearkv_driver.registry import CardUrl, open_drive, parse_url
from nearkv_driver.syscalls import Syscalls, SystemCalls

from nearkv.card_store import CardStore
from nearkv.errors import UserError
from nearkv.layout import ModelLayout
from nearkv.stream_options import StreamOptions
from nearkv.timeline import READ, Timeline
from nearkv.volume import Volume
from nearkv.volume_folders import volume_folder
from nearkv.volume_identity import VolumeIdentity, read_identity

SPILL_UNITS_MAX = 64


def open_cards(
    layout: ModelLayout,
    urls: Sequence[str],
    stack: ExitStack,
    syscalls: Syscalls | None = None,
    timeline: Timeline | None = None,
) -> list[CardStore]:
    """One CardStore per URL, in that order; `stack` closes them and removes temporary volumes."""
    if not urls:
        raise UserError("a store needs at least one card URL")
    parsed = [parse_url(url) for url in urls]
    folders = [volume_folder(url) for url in parsed]
    spill_units = _spill_units(parsed)
    for url in parsed:
        if "quota" in url.options:
            url.nbytes("quota", "")  # refused before any card is opened
    identities = _identities(layout, folders)
    # Every card is opened and judged before the first volume is made: a refusal by the last one leaves nothing behind.
    opened = []
    for url in parsed:
        number = timeline.add_card(url.text) if timeline else -1
        record = partial(timeline.add, number) if timeline else None
        device = stack.enter_context(NearDevice.open(url.text, record=record))
        if layout.head_size not in device.identity.head_sizes:
            supported = list(device.identity.head_sizes)
            raise UserError(f"{url.text}: head_size = {layout.head_size} is not in the card's {supported}")
        bank = device.info.banks[device.info.masters["kv"]]
        told = partial(_record_read, timeline, number) if timeline else None
        opened.append((device, _p2p(url, device), StreamOptions.of(url, bank.nbytes, layout), told))
    cards = []
    for url, folder, identity, (device, p2p, options, told) in zip(parsed, folders, identities, opened, strict=True):
        place = _temporary(stack) if folder is None else folder
        direct = url.option("io", "direct") == "direct"
        drive = open_drive(url, syscalls if syscalls is not None else SystemCalls())
        quota = url.nbytes("quota", "1") if "quota" in url.options else None
        volume = Volume(place, identity, layout.slot_nbytes, direct=direct, syscalls=drive.calls, quota_nbytes=quota)
        stack.callback(volume.close)
        card = CardStore(device, volume, layout, options, p2p=p2p, spill_units=spill_units, record_read=told)
        card.endurance_nbytes = drive.endurance_nbytes
        stack.callback(card.stop)
        cards.append(card)
    return cards


def evicts(urls: Sequence[str]) -> bool:
    """Whether closed sequences may go when space is short: of a whole store or not at all, since their pages lie on all
    cards."""
    given = {parse_url(url).option("evict", "off") for url in urls}
    if len(given) > 1:
        raise UserError("evict=lru on some cards only: all cards of a store have the same")
    return given == {"lru"}


def _spill_units(urls: Sequence[CardUrl]) -> int:
    """Full units that start a spill: one number for the store, since a sequence is spilled on all cards at once."""
    given = {url.count("spill", 1, SPILL_UNITS_MAX) for url in urls if "spill" in url.options}
    if len(given) > 1:
        raise UserError(f"spill={min(given)} and spill={max(given)}: all cards of a store have the same")
    return given.pop() if given else 1


def _record_read(timeline: Timeline, card: int, slot: int, begin_s: float, end_s: float) -> None:
    timeline.add(card, READ, begin_s, end_s, slot)


def _temporary(stack: ExitStack) -> Path:
    folder = Path(tempfile.mkdtemp(prefix="nearkv-"))
    stack.callback(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _identities(layout: ModelLayout, folders: Sequence[Path | None]) -> list[VolumeIdentity]:
    """What each volume must be; those that exist are checked, and a new one joins the store of the others."""
    real = [folder.resolve() for folder in folders if folder]
    for path in real:
        if real.count(path) > 1:
            raise UserError(f"{path}: two cards name the same volume; each card has its own")
    found = [read_identity(folder) if folder else None for folder in folders]
    store = next((identity.store for identity in found if identity), secrets.token_hex(8))
    identities = []
    for number, (folder, there) in enumerate(zip(folders, found, strict=True)):
        wanted = replace(VolumeIdentity.of(layout, number, len(folders)), store=store)
        if folder and there:
            wanted.check(there, folder)
        identities.append(wanted)
    return identities


def _p2p(url: CardUrl, device: NearDevice) -> bool:
    """Whether drive-to-card transfers are used; refused when they do not work and the URL does not ask for bounce."""
    if url.option("p2p", "on") == "bounce":
        return False
    if not device.info.p2p:
        raise TransportUnavailable(
            f"P2P is off: {device.info.p2p_reason}", card=url.text, remedy="enable it or add p2p=bounce to the card URL"
        )
    return True
