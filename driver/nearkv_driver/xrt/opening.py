# SPDX-License-Identifier: Apache-2.0
"""Opens a card behind XRT: which binding, which card, whether the binary is for it, whether its drive reaches it.

`xrt:0000:3b:00.1?ssd=FOLDER&xclbin=FILE`. The target is a PCI address, a name or an index. What was opened before
something failed is closed again, in XRT's order.
"""

from __future__ import annotations

import importlib
import logging
import re
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nearkv_driver.errors import BuildMismatch, TransportUnavailable
from nearkv_driver.p2p import BOUNCE, card_reason, volume_reason
from nearkv_driver.p2p_check import check_path
from nearkv_driver.registry import CardUrl
from nearkv_driver.syscalls import Syscalls
from nearkv_driver.sysfs import Sysfs
from nearkv_driver.time_limit import LOAD_S
from nearkv_driver.transport import CardInfo
from nearkv_driver.xrt.api import Query, XrtApi, XrtDevice, XrtError, XrtKernel
from nearkv_driver.xrt.binary import Binary, check_platform, read_binary
from nearkv_driver.xrt.card import XrtCard
from nearkv_driver.xrt.control import Control, RegisterControl, RunControl
from nearkv_driver.xrt.loading import load_within
from nearkv_driver.xrt.native_load import load_native
from nearkv_driver.xrt.places import Places
from nearkv_driver.xrt.pyxrt_api import load_pyxrt
from nearkv_driver.xrt.trouble import no_binary, no_load, no_open

OPTIONS = ("xclbin", "cu", "api", "control")
_APIS = ("auto", "pyxrt", "native")
_CONTROLS = ("auto", "registers", "runs")
_BDF = re.compile(r"(?:[0-9a-fA-F]{4}:)?[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]")
_CARDS_MAX = 64
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Machine:
    """What a test replaces: where things lie, how modules load, where sysfs is, how files are read, the seconds that
    a binary may take to load."""

    places: Places
    load: Callable[[str], Any] = importlib.import_module
    calls: Syscalls | None = None
    native: Callable[[Places, str], XrtApi] = load_native
    load_s: float = LOAD_S

    @property
    def sysfs(self) -> Sysfs:
        return Sysfs(self.places.sysfs)

    @property
    def emulated(self) -> bool:
        return bool(self.places.emulation)


def open_card(url: CardUrl, machine: Machine | None = None) -> XrtCard:
    """ValueError for an option; TransportUnavailable, BuildMismatch or LoadTimeout, with what to do, for all else."""
    url.only(OPTIONS)
    api_name, way = url.choice("api", _APIS, "auto"), url.choice("control", _CONTROLS, "auto")
    machine = machine or Machine(Places.of())
    binary = find_binary(url, machine)
    api = choose_api(api_name, machine, url.text)
    if way == "registers" and not api.has_registers:
        raise TransportUnavailable(
            "pyxrt has no access to registers", card=url.text, remedy="add api=native, or leave control=registers out"
        )
    return open_through(api, binary, url, machine, registers=api.has_registers and way != "runs")


def find_binary(url: CardUrl, machine: Machine) -> Binary:
    """The file that the URL or the environment names, read."""
    file = url.option("xclbin", machine.places.xclbin)
    if not file:
        raise no_binary(url.text)
    return read_binary(file, url.option("cu", ""), url.text)


def open_through(api: XrtApi, binary: Binary, url: CardUrl, machine: Machine, *, registers: bool) -> XrtCard:
    """Through a binding that has been chosen. `registers`: drive the unit by them, not by runs of XRT."""
    with ExitStack() as stack:
        device = open_device(api, url, machine, stack)
        _load(device, binary, machine, url, stack)
        info = _describe(api, device, binary, url, machine, registers=registers)
        card = _card(device, binary, info, stack, registers=registers)
    try:
        _try_p2p(card, url, machine)
    except BaseException:
        card.close()
        raise
    return card


def choose_api(name: str, machine: Machine, card: str) -> XrtApi:
    """`auto`: pyxrt, and where it cannot be had nearkv's own binding, which then says why it is there."""
    try:
        if name == "native":
            return machine.native(machine.places, "the card URL says api=native")
        return load_pyxrt(machine.places, machine.load)
    except TransportUnavailable as error:
        if name != "auto":
            raise for_card(card, error) from error
        missing = error
    try:
        return machine.native(machine.places, f"in place of pyxrt: {str(missing).partition(';')[0]}")
    except TransportUnavailable as error:
        raise for_card(card, missing, f"; and nearkv's own binding cannot take its place: {error}") from error


def for_card(card: str, error: TransportUnavailable, more: str = "") -> TransportUnavailable:
    """The same, with the card's name before it."""
    text = str(error).removesuffix(f"; {error.remedy}")
    return TransportUnavailable(text + more, card=card, remedy=error.remedy)


def open_device(api: XrtApi, url: CardUrl, machine: Machine, stack: ExitStack) -> XrtDevice:
    """By index, PCI address or name; a name that several cards have is refused with their addresses."""
    target = url.target
    try:
        if target.isdecimal() and len(target) < 4:
            device = api.open(int(target))
        elif _BDF.fullmatch(target):
            device = api.open(target.lower() if len(target) > len("00:00.0") else f"0000:{target.lower()}")
        else:
            device = api.open(_named(api, url, machine))
    except XrtError as error:
        raise no_open(error, url, machine.sysfs, machine.places, api.info()) from error
    stack.callback(device.close)
    return device


def _named(api: XrtApi, url: CardUrl, machine: Machine) -> int:
    """The index of the card of this name. Emulation opens every index: there the addresses begin to repeat."""
    found: dict[str, tuple[int, str]] = {}
    for index in range(_CARDS_MAX):
        try:
            device = api.open(index)
        except XrtError:
            if index == 0:
                raise
            break
        bdf, name = device.query(Query.BDF), device.query(Query.NAME)
        device.close()
        if bdf in found:
            break
        found[bdf] = (index, name)
    fits = {bdf: index for bdf, (index, name) in found.items() if name == url.target}
    if len(fits) == 1:
        return next(iter(fits.values()))
    cards = ", ".join(f"{bdf} {name}" for bdf, (_, name) in found.items()) or "none"
    what = f"{len(fits)} cards are called {url.target!r}" if fits else f"no card is called {url.target!r}"
    raise TransportUnavailable(
        f"{what}; cards: {cards}", card=url.text, remedy=f"name one by its PCI address, e.g. {url.scheme}:0000:3b:00.1"
    )


def _load(device: XrtDevice, binary: Binary, machine: Machine, url: CardUrl, closing: ExitStack) -> None:
    shell, interface = device.query(Query.NAME), device.query(Query.INTERFACE)
    check_platform(binary, shell, interface, emulated=machine.emulated, card=url.text)
    before = device.loaded()
    try:
        load_within(machine.load_s, device, binary.path, url.text, closing)
    except XrtError as error:
        raise no_load(error, url.text, binary, shell, before) from error


def _describe(
    api: XrtApi, device: XrtDevice, binary: Binary, url: CardUrl, machine: Machine, *, registers: bool
) -> CardInfo:
    found, bdf = api.info(), device.query(Query.BDF) or url.target
    reason = "the card URL says p2p=bounce" if url.option("p2p", "on") == "bounce" else ""
    if not reason and not machine.emulated:
        reason = card_reason(machine.sysfs, bdf, binary.platform, binary.bank.tag)
        reason = reason or volume_reason(machine.sysfs, bdf, _folder(url))
    shell, version = device.query(Query.NAME) or binary.platform, f" {found.version}" if found.version else ""
    emulated = f", emulated ({machine.places.emulation})" if machine.emulated else ""
    way = "registers" if registers else "runs"
    return CardInfo(
        url=url.text,
        kind=url.scheme,
        platform=f"{shell} at {bdf}{emulated}, through {found.name}{version} by {way} ({found.note})",
        banks=(binary.bank,),
        masters=binary.masters,
        p2p=not reason,
        p2p_reason=reason,
        simulated=machine.emulated,
    )


def _card(device: XrtDevice, binary: Binary, info: CardInfo, stack: ExitStack, *, registers: bool) -> XrtCard:
    """Takes over what `stack` holds when nothing fails."""
    try:
        if registers:
            unit = device.registers(binary.unit)
            stack.callback(unit.free)
            card = XrtCard(info, device, binary.group)
            direct = RegisterControl(unit, info.url)
            direct.settle()
            control: Control = direct
        else:
            kernel = device.kernel(binary.unit)
            stack.callback(kernel.free)
            run = kernel.run()
            stack.callback(run.free)
            card = XrtCard(info, device, _group(kernel, binary, info.url))
            control = RunControl(run, card.find, info.url)
    except XrtError as error:
        raise TransportUnavailable(
            f"XRT gives no access to {binary.unit} of {binary.path}: {error}",
            card=info.url,
            remedy="another program may hold it: end that program, or name another unit with cu=NAME",
        ) from error
    card.take(control, stack.pop_all())
    return card


def _group(kernel: XrtKernel, binary: Binary, card: str) -> int:
    """XRT's own number of the bank: newer versions put more into it than its place in the file's table."""
    groups = {name: kernel.group(index) for index, name in enumerate(binary.masters)}
    if len(set(groups.values())) > 1:
        raise BuildMismatch("memory of the kernel", card=card, wanted="all masters in one group of XRT", found=groups)
    return groups["kv"]


def _folder(url: CardUrl) -> Path | None:
    text = url.option("ssd", "")
    try:
        return Path(text).expanduser().absolute() if text else None
    except RuntimeError as error:  # ~NAME without such a user
        raise ValueError(f"card URL {url.text!r}: ssd={text}: {error}") from error


def _try_p2p(card: XrtCard, url: CardUrl, machine: Machine) -> None:
    """Moves a pattern from the volume's drive into the card before anyone trusts that way."""
    info, folder = card.info(), _folder(url)
    if not info.p2p or folder is None:
        return
    while not folder.is_dir() and folder != folder.parent:
        folder = folder.parent
    direct = url.option("io", "direct") == "direct"
    bank = info.masters["kv"]
    found = check_path(lambda n, p2p: card.alloc(n, bank, p2p), folder, direct=direct, calls=machine.calls)
    if found.rates is None:
        card.judge_p2p(f"{found.reason}; {BOUNCE}")
        return
    if found.rates.slow:
        _log.warning("%s: measured %s: p2p=bounce in the card URL is the faster way", info.url, found.rates)
    if not direct:
        _log.warning("%s: without direct I/O the CPU copies every page through the card's BAR, slowly", info.url)
