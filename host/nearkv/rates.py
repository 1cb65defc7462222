# SPDX-License-Identifier: Apache-2.0
"""Rates of a run and how much of its reading was hidden, from its time line; and which rates no link carries.

A rate above what the link behind it can carry is no property of a card: a cache answered, or the card is emulated. That
is said beside the figure, never left to the reader.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from nearkv.report import Row, short_url
from nearkv.stats import CardStats
from nearkv.timeline import LINK, READ, Timeline, length, overlap_share, union


@dataclass(frozen=True)
class LinkLimits:
    """Bytes per second that a card's drive gives its FPGA and its link gives the host, where they are known; `name`:
    whose."""

    name: str
    read: float | None
    link: float | None


_NOT_KNOWN = LinkLimits("", None, None)


@dataclass(frozen=True)
class CardRates:
    """Bytes of one card, and the seconds in which any of them were under way. overlap: share of the shorter of reads
    and all else that lies within the other; None where one is missing."""

    url: str
    read_nbytes: int
    read_s: float
    link_nbytes: int
    link_s: float
    overlap: float | None

    @property
    def read_rate(self) -> float | None:
        return self.read_nbytes / self.read_s if self.read_nbytes and self.read_s else None

    @property
    def link_rate(self) -> float | None:
        return self.link_nbytes / self.link_s if self.link_nbytes and self.link_s else None


def card_rates(timeline: Timeline, cards: Sequence[CardStats]) -> list[CardRates]:
    """`cards` in the order in which the time line knows them, counted from its begin."""
    intervals, found = timeline.intervals, []
    for number, card in enumerate(cards):
        own = [interval for interval in intervals if interval.card == number]
        read_s, link_s = (length(union(i for i in own if i.what == what)) for what in (READ, LINK))
        link = card.link_down_payload + card.link_up_payload + card.link_overhead + card.upload_nbytes
        share = overlap_share(intervals, number)
        found.append(CardRates(card.url, card.streamed_nbytes, read_s, link, link_s, share))
    return found


def above(rate: float | None, limit: float | None) -> bool:
    """Whether a rate, in bytes per second, is above a limit; False where either is not known."""
    return rate is not None and limit is not None and rate > limit


def flag(rate: float | None, limit: float | None, whose: str) -> str:
    """What to say behind a rate: nothing where the link can carry it, or its limit is not known."""
    if limit is None or not above(rate, limit):
        return ""
    return f": ABOVE THE LINK'S LIMIT, {_gb_s(limit)} of {whose}; memory or a cache answered"


def rows(rates: Sequence[CardRates], limits: LinkLimits | None) -> list[Row]:
    """The rates of each card as rows of the report, flagged where no link carries them."""
    table, known = [], limits or _NOT_KNOWN
    for card in rates:
        if card.read_rate is not None:
            hidden = "" if card.overlap is None else f", {card.overlap:.0%} hidden behind other work"
            told = f"{_gb_s(card.read_rate)} in {card.read_s:.3f} s of reading{hidden}"
            table.append(Row(f"reads of {short_url(card.url)}", told + flag(card.read_rate, known.read, known.name)))
        if card.link_rate is not None:
            told = f"{_gb_s(card.link_rate)} in {card.link_s:.3f} s of transfers"
            table.append(Row(f"link of {short_url(card.url)}", told + flag(card.link_rate, known.link, known.name)))
    return table


def document(rates: Sequence[CardRates], limits: LinkLimits | None) -> list[dict[str, Any]]:
    """The rates of each card for JSON: bytes, seconds, bytes per second; None where not known."""
    known = limits or _NOT_KNOWN
    return [
        {
            "url": card.url,
            "read_bytes": card.read_nbytes,
            "read_seconds": card.read_s,
            "read_bytes_per_s": card.read_rate,
            "read_limit_bytes_per_s": known.read,
            "read_above_limit": above(card.read_rate, known.read),
            "link_bytes": card.link_nbytes,
            "link_seconds": card.link_s,
            "link_bytes_per_s": card.link_rate,
            "link_limit_bytes_per_s": known.link,
            "link_above_limit": above(card.link_rate, known.link),
            "overlap_share": card.overlap,
        }
        for card in rates
    ]


def _gb_s(rate: float) -> str:
    return f"{rate / 1e9:.3g} GB/s"
