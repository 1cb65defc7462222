# SPDX-License-Identifier: Apache-2.0
"""What XRT says when a card cannot be opened or loaded, turned into what is wrong and what to do. Opens nothing."""

from __future__ import annotations

import errno

from nearkv_driver.errors import TransportUnavailable
from nearkv_driver.registry import CardUrl
from nearkv_driver.sysfs import Sysfs
from nearkv_driver.xrt.api import ApiInfo, XrtError
from nearkv_driver.xrt.binary import Binary
from nearkv_driver.xrt.places import Places

_RIGHTS = ("permission denied", "operation not permitted", "(-13)", "(-1)")
_HELD = ("device or resource busy", "busy")


def no_binary(card: str) -> TransportUnavailable:
    """Neither the URL nor the environment names a file."""
    return TransportUnavailable(
        "no xclbin is named", card=card, remedy="add xclbin=FILE to the card URL, or set NEARKV_XCLBIN"
    )


def no_open(error: XrtError, url: CardUrl, sysfs: Sysfs, places: Places, api: ApiInfo) -> TransportUnavailable:
    """No card at all, no module, no rights, or another card than the one that was asked for."""
    what, fix = _open_cause(error, url, sysfs, places)
    return TransportUnavailable(f"{what} ({api.name} says: {error})", card=url.text, remedy=fix)


def no_load(error: XrtError, card: str, binary: Binary, shell: str, before: str) -> TransportUnavailable:
    """`before`: the binary that was on the card."""
    there = f"the card holds {before}" if before and before != binary.uuid else "no other binary is known on the card"
    fix = "check the file with nearkv xclbin info, the card with nearkv doctor, the kernel's messages with dmesg"
    text = str(error).lower()
    if error.errno in (errno.EBUSY, errno.EPERM) or any(word in text for word in _HELD + _RIGHTS):
        fix = "end the programs that use the binary on the card (xbutil examine), then try again"
    elif error.errno == errno.EOPNOTSUPP or "-95" in text:
        fix = "give a file that was linked for this shell, or flash the shell that it was linked for"
    return TransportUnavailable(
        f"XRT does not load {binary.path} (binary {binary.uuid} for {binary.platform}) into {shell or 'the card'}: "
        f"{error}; {there}",
        card=card,
        remedy=fix,
    )


def _open_cause(error: XrtError, url: CardUrl, sysfs: Sysfs, places: Places) -> tuple[str, str]:
    text = str(error).lower()
    if error.errno in (errno.EACCES, errno.EPERM) or any(word in text for word in _RIGHTS):
        return (
            "no right to open the card",
            "add yourself to the group that owns /dev/dri/renderD* (ls -l /dev/dri; usually render), then log in again",
        )
    if places.emulation and error.errno == errno.ENODEV:
        return (
            f"XRT's emulation has no card {url.target!r}",
            "name one that it has; nearkv xrt-emulate --devices N makes more",
        )
    if places.emulation:
        return (
            f"XRT's emulation ({places.emulation}) did not start",
            "run it as nearkv xrt-emulate -- COMMAND, which sets up what XRT needs",
        )
    functions = sysfs.cards()
    if not functions:
        return (
            "no card: this machine has no PCI device of Xilinx",
            "lspci -d 10ee: must list it: check its seat and power, then start the machine cold",
        )
    if "xilinx_xrt not set" in text:
        return "XRT does not know where it lies", "source /opt/xilinx/xrt/setup.sh, which sets XILINX_XRT"
    users = [card for card in functions if card.user]
    if not any(card.driver for card in users):
        return (
            "XRT's kernel module has not taken the card",
            "modprobe xocl; if that fails, dkms status says whether it was built for this kernel (newer kernels need "
            "a newer XRT)",
        )
    names = ", ".join(f"{card.bdf} {card.shell}".strip() for card in users)
    hint = " (function .0 manages the card; programs use .1)" if url.target.endswith(".0") else ""
    return f"XRT cannot open {url.target!r}{hint}; cards: {names}", "name one of these in the card URL"
