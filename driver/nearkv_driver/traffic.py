# SPDX-License-Identifier: Apache-2.0
"""What one card has moved and done since it was opened. Counts only; nothing here measures time."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Traffic:
    """Bytes over the link between host and card, by what they were for.

    down_payload: q and new rows. up_payload: O, L and T. The overheads hold everything else that a list moves:
    descriptors, limits, segments, alignment, poison, statuses, the identity handshake, and q of jobs
    without an output (it comes again with the job that gives it). upload_nbytes: uploads. checksum_nbytes: checksums
    that travel with streamed pages. kv_beats: 64-byte words of K and V that the kernel read.
    kernel_cycles: what the jobs' statuses say, 0 where there is no clock. `lists` and `jobs` leave the handshake out.
    """

    jobs: int = 0
    lists: int = 0
    down_payload: int = 0
    down_overhead: int = 0
    up_payload: int = 0
    up_overhead: int = 0
    upload_nbytes: int = 0
    checksum_nbytes: int = 0
    kv_beats: int = 0
    kernel_cycles: int = 0
    saturated_jobs: int = 0
