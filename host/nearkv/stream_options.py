# SPDX-License-Identifier: Apache-2.0
"""How a card's memory is divided and its drive is read: the options of its URL as checked values. Allocates nothing.

resident   most card memory for extents that stay, a share (0.5) or a size (16M); default: all that is left
staging    memory for pages that are read when they are needed; default: a quarter of the card, at most 64 MiB
reads      requests to the drive in flight; default 16
prefetch   `on` (default): pages are read before they are needed; `off`: each wave when the one before is computed
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from nearkv_driver.registry import CardUrl
from nearkv_driver.regmap import JOBS_MAX, PAGE_BYTES

from nearkv.layout import ModelLayout

_STAGING_SHARE, _STAGING_MOST = 4, 64 << 20
_WAVES, _LEAST_WAVES = 4, 2
_READS, _READS_MOST = 16, 256
_SHARE = re.compile(r"0(\.[0-9]+)?|1(\.0+)?")


@dataclass(frozen=True)
class StreamOptions:
    """`waves` staging buffers of `wave_nbytes` each; `resident_nbytes` is None where only free memory is the limit."""

    resident_nbytes: int | None
    waves: int
    wave_nbytes: int
    reads: int
    ahead: bool

    @property
    def request_nbytes(self) -> int:
        """Most that one request reads, so that `reads` of them can be in flight."""
        return max(PAGE_BYTES, self.waves * self.wave_nbytes // self.reads // PAGE_BYTES * PAGE_BYTES)

    @classmethod
    def of(cls, url: CardUrl, bank_nbytes: int, layout: ModelLayout) -> StreamOptions:
        """ValueError names option, value and what is expected."""
        extent = layout.extent_nbytes
        # A wave holds an extent of all KV heads, and no more jobs than a list.
        least, most = layout.kv_heads * extent, JOBS_MAX * extent
        default = max(_LEAST_WAVES * least, min(bank_nbytes // _STAGING_SHARE, _STAGING_MOST))
        staging = url.nbytes("staging", str(default))
        if staging < _LEAST_WAVES * least:
            raise ValueError(
                f"card URL {url.text!r}: staging={url.option('staging', '')}; this model needs at least "
                f"{_LEAST_WAVES * least} bytes: {_LEAST_WAVES} x one extent of {layout.kv_heads} KV heads"
            )
        waves = max(_LEAST_WAVES, min(_WAVES, staging // least))
        wave_nbytes = min(staging // waves // extent * extent, most)
        return cls(_resident(url, bank_nbytes), waves, wave_nbytes, _reads(url), url.option("prefetch", "on") == "on")


def _resident(url: CardUrl, bank_nbytes: int) -> int | None:
    text = url.option("resident", "")
    if not text:
        return None
    return int(float(text) * bank_nbytes) if _SHARE.fullmatch(text) else url.nbytes("resident", text)


def _reads(url: CardUrl) -> int:
    text = url.option("reads", str(_READS))
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= _READS_MOST):
        raise ValueError(f"card URL {url.text!r}: reads={text}; 1 to {_READS_MOST} is expected")
    return int(text)
