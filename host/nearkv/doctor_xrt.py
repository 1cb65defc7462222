# SPDX-License-Identifier: Apache-2.0
"""What stands below a card behind XRT: binding, kernel module, card, shell, P2P, its own drive, the binary.

Reads sysfs and the xclbin file; opens no card. `doctor` opens it, and `doctor_selftest` moves bytes.
"""

from __future__ import annotations

from pathlib import Path

from nearkv_driver.errors import DriverError
from nearkv_driver.p2p import P2p, own_drives, p2p_state, volume_reason
from nearkv_driver.pynq import load_pynq
from nearkv_driver.registry import CardUrl
from nearkv_driver.sysfs import PciCard
from nearkv_driver.xrt.binary import check_platform, read_binary
from nearkv_driver.xrt.opening import Machine, choose_api
from nearkv_driver.xrt.places import Places

from nearkv.doctor_check import Check
from nearkv.errors import one_line
from nearkv.report import short_url
from nearkv.volume_folders import volume_folder


def check_xrt(url: CardUrl, machine: Machine | None = None) -> list[Check]:
    """In the order in which one thing needs the other. Under XRT's emulation there are no files of a card to read."""
    machine = machine or Machine(Places.of())
    name = short_url(url.text)
    checks = [_binding(name, url, machine)]
    card: PciCard | None = None
    if machine.emulated:
        checks.append(Check(f"{name} card", True, f"emulated by XRT ({machine.places.emulation})"))
    else:
        users = [found for found in machine.sysfs.cards() if found.user]
        checks += [_module(name, machine), _cards(name, machine, users)]
        card = _the_card(url, users)
        if card is not None:
            checks += [*_p2p(name, url, machine, card), _iommu(name, machine)]
    checks.append(_binary(name, url, machine, card))
    return checks


def _binding(name: str, url: CardUrl, machine: Machine) -> Check:
    try:
        if url.scheme == "pynq":
            found = load_pynq(machine.places, machine.load).info()
        else:
            found = choose_api(url.choice("api", ("auto", "pyxrt", "native"), "auto"), machine, url.text).info()
    except DriverError as error:
        return Check(f"{name} XRT", False, one_line(error), getattr(error, "remedy", ""))
    return Check(f"{name} XRT", True, f"{found.name} {found.version or 'of unknown version'} ({found.note})")


def _module(name: str, machine: Machine) -> Check:
    modules = machine.sysfs.modules()
    found = ", ".join(f"{module} {version}".strip() for module, version in modules.items()) or "not loaded"
    ok = "xocl" in modules
    fix = "modprobe xocl; dkms status says whether it was built for this kernel: newer kernels need a newer XRT"
    return Check(f"{name} kernel module", ok, found, "" if ok else fix)


def _cards(name: str, machine: Machine, users: list[PciCard]) -> Check:
    if users:
        listed = ", ".join(f"{card.bdf} {card.shell or 'shell not known'}" for card in users)
        return Check(f"{name} card and shell", True, listed)
    others = ", ".join(card.bdf for card in machine.sysfs.cards())
    found = f"only functions that manage a card: {others}" if others else "no PCI device of Xilinx"
    fix = (
        "flash a shell with xbmgmt program --base, then start the machine cold"
        if others
        else "lspci -d 10ee: must list it: check its seat and power, then start the machine cold"
    )
    return Check(f"{name} card and shell", False, found, fix)


def _the_card(url: CardUrl, users: list[PciCard]) -> PciCard | None:
    """The card that a URL names, as far as sysfs alone can tell: an index is not known to be in any order."""
    target = url.target
    fits = [card for card in users if target in (card.bdf, card.bdf.removeprefix("0000:"), card.shell)]
    if not fits and target.isdecimal() and len(users) == 1:
        fits = users
    return fits[0] if len(fits) == 1 else None


def _p2p(name: str, url: CardUrl, machine: Machine, card: PciCard) -> list[Check]:
    sysfs, bounce = machine.sysfs, url.options.get("p2p") == "bounce"
    state = p2p_state(sysfs.p2p_config(card.bdf), card.bdf, sysfs.p2p_enabled(card.bdf))
    reason = volume_reason(sysfs, card.bdf, volume_folder(url))
    paired = own_drives(sysfs, card.bdf) or "no drive shares a PCI bridge with it"
    wrong, _, fix = reason.partition(": ")
    found = f"{wrong}; below its bridge: {paired}" if reason else f"{paired}, and the volume is on it"
    return [
        Check(f"{name} P2P state", state.state is P2p.ENABLED, state.found, state.fix, optional=bounce),
        Check(f"{name} own drive", not reason, found, fix, optional=bounce),
    ]


def _iommu(name: str, machine: Machine, command_line: Path = Path("/proc/cmdline")) -> Check:
    """An IOMMU that translates makes peer-to-peer transfers slow or wrong on some machines."""
    try:
        options = command_line.read_text().split()
    except OSError:
        options = []
    through = "iommu=pt" in options or "iommu.passthrough=1" in options
    if not machine.sysfs.iommu():
        return Check(f"{name} IOMMU", True, "off", optional=True)
    fix = "" if through else "if P2P is slow or wrong: start the kernel with iommu=pt"
    return Check(f"{name} IOMMU", through, "passes through" if through else "translates", fix, optional=True)


def _binary(name: str, url: CardUrl, machine: Machine, card: PciCard | None) -> Check:
    title = f"{name} xclbin"
    file = url.option("xclbin", machine.places.xclbin)
    if not file:
        return Check(title, False, "none is named", "add xclbin=FILE to the card URL, or set NEARKV_XCLBIN")
    try:
        binary = read_binary(file, url.option("cu", ""), "")
        shell = card.shell if card else ""
        check_platform(binary, shell, "", emulated=machine.emulated, card="")
    except DriverError as error:
        fix = getattr(error, "remedy", "") or "give the file that was linked for this card's platform"
        return Check(title, False, one_line(error), fix)
    fits = f"; fits {card.shell}" if card and card.shell else ""
    return Check(title, True, f"{file}: {binary.platform}, {binary.unit} on {binary.bank.tag}{fits}")
