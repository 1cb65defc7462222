# SPDX-License-Identifier: Apache-2.0
"""Card URLs: `SCHEME:TARGET?key=value&key=value`, and the transport that each scheme means.

Transport modules are imported when a card is opened, never before. Values may be percent-encoded.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Protocol, cast
from urllib.parse import unquote

from nearkv_driver.syscalls import Syscalls
from nearkv_driver.transport import Transport

# Options of every scheme; the layers above the transport act on them.
COMMON_OPTIONS: Mapping[str, tuple[str, ...] | None] = {
    "ssd": None,  # volume folder: any path
    "io": ("direct", "buffered"),
    "p2p": ("on", "bounce"),
    "spill": None,  # full units of a tail that start a spill: a whole number
    "resident": None,  # most card memory for extents: a share such as 0.5, or a size
    "staging": None,  # card memory for pages that are read when they are needed: a size
    "reads": None,  # requests to the drive in flight
    "prefetch": ("on", "off"),
    "quota": None,  # most that the volume's data files may have: a size
    "evict": ("off", "lru"),
}
_SCHEMES = {
    "sw_emu": "nearkv_emulation.card:open_card",
    "hw_emu": "nearkv_emulation.hw_emu:open_card",
    "xrt": "nearkv_driver.xrt:open_card",
    "pynq": "nearkv_driver.pynq:open_card",
}
# What stands between a volume and the operating system, for cards whose drive is not a real one.
_DRIVES = dict.fromkeys(("sw_emu", "hw_emu"), "nearkv_emulation.drive:open_drive")
_FORM = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9_+.-]*):(?P<target>[^?\s]+)(?:\?(?P<options>.*))?", re.DOTALL)
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


@dataclass(frozen=True)
class CardUrl:
    """A parsed card URL; `options` holds only what the URL gave, `text` the URL itself."""

    scheme: str
    target: str
    options: Mapping[str, str]
    text: str

    def option(self, name: str, default: str) -> str:
        """The value of an option, or `default` where the URL has none."""
        return self.options.get(name, default)

    def choice(self, name: str, allowed: Collection[str], default: str) -> str:
        """An option whose value is one of `allowed`; ValueError otherwise."""
        value = self.option(name, default)
        if value not in allowed:
            raise ValueError(f"card URL {self.text!r}: {name}={value}; allowed are {', '.join(allowed)}")
        return value

    def count(self, name: str, least: int, most: int) -> int:
        """An option that the URL has, as a whole number from `least` to `most`."""
        value = self.options[name]
        number = int(value) if re.fullmatch("[0-9]{1,9}", value) else -1
        if not least <= number <= most:
            raise ValueError(
                f"card URL {self.text!r}: {name}={value}; a whole number from {least} to {most} is expected"
            )
        return number

    def nbytes(self, name: str, default: str) -> int:
        """An option that is a size above zero, such as 65536, 64K, 512M or 4G."""
        value = self.option(name, default)
        match = re.fullmatch(r"([0-9]+)([KMG]?)", value)
        size = int(match[1]) * _UNITS[match[2]] if match else 0
        if size <= 0:
            raise ValueError(f"card URL {self.text!r}: {name}={value}; a size above 0 such as 512M or 4G is expected")
        return size

    def only(self, own: Collection[str]) -> None:
        """Refuses options that are neither common nor in `own`."""
        for name in self.options:
            if name not in COMMON_OPTIONS and name not in own:
                allowed = ", ".join([*COMMON_OPTIONS, *own])
                raise ValueError(f"card URL {self.text!r}: unknown option {name!r}; {self.scheme} allows {allowed}")


@dataclass(frozen=True)
class CardDrive:
    """How a card's volume is reached, and the bytes that its drive is rated to take in its life (0 = not known)."""

    calls: Syscalls
    endurance_nbytes: int = 0


class _Opener(Protocol):
    def __call__(self, url: CardUrl) -> Transport: ...


class _DriveOpener(Protocol):
    def __call__(self, url: CardUrl, inner: Syscalls) -> CardDrive: ...


def parse_url(url: str) -> CardUrl:
    """Raises ValueError, in one line, for an unknown scheme or a malformed or duplicate option."""
    match = _FORM.fullmatch(url)
    if match is None:
        raise ValueError(f"card URL {url!r} is not of the form SCHEME:TARGET?key=value&key=value")
    scheme = match["scheme"]
    if scheme not in _SCHEMES:
        raise ValueError(f"card URL {url!r}: unknown scheme {scheme!r}; known: {', '.join(_SCHEMES)}")
    options: dict[str, str] = {}
    for part in match["options"].split("&") if match["options"] is not None else ():
        name, equals, value = part.partition("=")
        if not (name and equals and value):
            raise ValueError(f"card URL {url!r}: option {part!r} is not of the form key=value")
        if name in options:
            raise ValueError(f"card URL {url!r}: option {name!r} is given twice")
        options[name] = unquote(value)
        if "\0" in options[name]:
            raise ValueError(f"card URL {url!r}: option {name!r} holds a NUL character")
    parsed = CardUrl(scheme, match["target"], options, url)
    for name, allowed in COMMON_OPTIONS.items():
        if allowed is not None:
            parsed.choice(name, allowed, allowed[0])
    return parsed


def open_transport(url: str) -> Transport:
    """Opens the card; the transport refuses options that it does not know."""
    parsed = parse_url(url)
    module, _, function = _SCHEMES[parsed.scheme].partition(":")
    opener = cast(_Opener, getattr(importlib.import_module(module), function))
    return opener(parsed)


def open_drive(url: CardUrl, inner: Syscalls) -> CardDrive:
    """The card's drive; `inner` is the operating system, which an emulated drive makes slower."""
    if url.scheme not in _DRIVES:
        return CardDrive(inner)
    module, _, function = _DRIVES[url.scheme].partition(":")
    opener = cast(_DriveOpener, getattr(importlib.import_module(module), function))
    return opener(url, inner)
