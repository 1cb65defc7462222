# SPDX-License-Identifier: Apache-2.0
"""Moves a pattern through an open card: by DMA there and back, and from the drive into its memory. Frees everything."""

from __future__ import annotations

import os
from pathlib import Path

from nearkv_driver.device import NearDevice
from nearkv_driver.errors import DriverError
from nearkv_driver.p2p_check import check_path
from nearkv_driver.registry import CardUrl

from nearkv.doctor_check import Check
from nearkv.errors import one_line
from nearkv.report import human_bytes, short_url
from nearkv.volume_folders import nearest_folder, volume_folder

_NBYTES = 1 << 20
_BOUNCE = "add p2p=bounce to the card URL"


def check_moves(url: CardUrl, card: NearDevice) -> list[Check]:
    """Bytes to the card and back by DMA, and from its drive by P2P where it has that."""
    name = short_url(url.text)
    checks = [_dma(name, card)]
    folder = volume_folder(url)
    if card.info.p2p and folder is not None:
        checks.append(_p2p(name, card, nearest_folder(folder), direct=url.options.get("io") != "buffered"))
    return checks


def _dma(name: str, card: NearDevice) -> Check:
    title, pattern = f"{name} DMA", os.urandom(_NBYTES)
    try:
        buffer = card.alloc(_NBYTES)
        try:
            card.upload(buffer, pattern)
            buffer.write(bytes(_NBYTES))
            buffer.sync_from_device(_NBYTES)
            back = buffer.read(_NBYTES)
        finally:
            buffer.free()
    except DriverError as error:
        return Check(title, False, one_line(error), "see dmesg; xbutil validate tests the card without nearkv")
    wrong = next((i for i, (a, b) in enumerate(zip(back, pattern, strict=True)) if a != b), None)
    if wrong is None:
        return Check(title, True, f"{human_bytes(_NBYTES)} there and back")
    ones = ", all ones: the card has left the bus" if set(back[wrong:]) == {0xFF} else ""
    found = f"byte {wrong} of {_NBYTES} came back wrong{ones}"
    return Check(title, False, found, "xbutil validate; if it fails too, start the machine cold")


def _p2p(name: str, card: NearDevice, folder: Path, *, direct: bool) -> Check:
    found = check_path(lambda nbytes, p2p: card.alloc(nbytes, p2p=p2p), folder, direct=direct)
    title = f"{name} drive to card"
    if found.rates is None:
        return Check(title, False, found.reason, _BOUNCE)
    fix = f"{_BOUNCE}: it is the faster way on this machine" if found.rates.slow else ""
    return Check(title, True, str(found.rates), fix)
