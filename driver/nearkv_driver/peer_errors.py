# SPDX-License-Identifier: Apache-2.0
"""What an error number means when a drive was to write straight into a card's memory, and what to do about it."""

from __future__ import annotations

from collections.abc import Mapping

_REFUSED = (
    "the kernel or the drive refused a peer-to-peer transfer: are card and drive below the same PCI switch, is the "
    "kernel 4.20 or later, is the IOMMU off or in pass-through (iommu=pt)? p2p=bounce goes through host memory"
)
_ADVICE: Mapping[str, str] = {
    "EINVAL": "address, length or offset are not aligned to 4096, or the file system has no O_DIRECT: use ext4 or XFS",
    "EFAULT": "the card's memory is not mapped, was freed, or its pages take no peer-to-peer transfers; "
    "p2p=bounce goes through host memory",
    "EIO": _REFUSED,
    "EREMOTEIO": _REFUSED,
    "EOPNOTSUPP": _REFUSED,
    "EACCES": "the file needs the rights of its owner: run as that user, or change the folder's rights",
    "EPERM": "the file needs the rights of its owner: run as that user, or change the folder's rights",
}


def advice(errno_name: str) -> str:
    """One sentence; for numbers that say nothing of peer-to-peer, what can always be done."""
    return _ADVICE.get(errno_name, "p2p=bounce goes through host memory")
