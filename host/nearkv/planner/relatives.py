# SPDX-License-Identifier: Apache-2.0
"""Two other near-storage systems, coarsely, on the same descriptions of hardware: a check that these describe more than
one paper. Smart-Infinity (HPCA 2024) updates optimizer states on SmartSSDs; InstAttention (HPCA 2025) attends in a
drive.
"""

from __future__ import annotations

from dataclasses import dataclass

from nearkv.planner.hardware import Card, Drive, Host

# Bytes per parameter of mixed-precision Adam as Smart-Infinity stores it: FP32 parameter, both moments, gradient; FP16
# parameters go back to the host.
STATES, GRADIENT, PARAMETER = 12.0, 4.0, 2.0
UPDATER = 8.2e9  # bytes per second that its Adam kernel takes: Smart-Infinity, figure 14
# Share of gradients that its compression keeps, with an index each: 2 % of the elements at 8 bytes.
KEPT = 0.02 * 2


@dataclass(frozen=True)
class Training:
    """`compute`: seconds per 10^9 parameters of forward and backward, transfers hidden: a free constant."""

    card: Card
    host: Host
    compute: float

    def plain(self, drives: int) -> float:
        """An iteration with RAID-0 over the cards' drives, seconds per 10^9 parameters: all states cross the uplink."""
        read = min(drives * self.card.drive.read, self.host.uplink)
        write = min(drives * self.card.drive.write, self.host.uplink)
        return self.compute + 1e9 * (GRADIENT / write + (STATES + GRADIENT) / read + STATES / write)

    def near(self, drives: int, kept: float = 1.0) -> float:
        """An iteration with the update on the cards: read and kernel one after the other, gradients read while the
        subgroup before is written."""
        drive, host = self.card.drive, self.host
        down = min(drives * drive.write, host.uplink)
        up = min(drives * drive.read, host.uplink)
        moved = GRADIENT * kept
        read = STATES / drive.p2p_read + moved / drive.p2p_read + (STATES + GRADIENT) / UPDATER
        write = max(0.0, STATES / drive.p2p_write - moved / drive.p2p_read)
        return self.compute + 1e9 * (moved / down + (read + write) / drives + PARAMETER / up)


# InstAttention. Flash channels inside its drive deliver 11.2 GB/s (8 at 1.4 GB/s); its sparse form first reads 1/8 of
# the channels of K, which is half of K and V, then 1/8 of the tokens of both. From memory of the paper, not checked.
FLASH = 11.2e9
SPARSE_READ = 1 / 8 / 2 + 1 / 8


def instattention_ratio(drive: Drive, drives: int, host: Host) -> float:
    """Attention rate over that of FlexGen with K and V on plain drives: both are bound by K and V at long contexts."""
    read = min(drives * drive.read, host.drives_link, host.file_rate)
    flexgen = 1 / (1 / read + 1 / host.attention)
    return FLASH / SPARSE_READ / flexgen
