# SPDX-License-Identifier: Apache-2.0
"""A generation's figures, and the table of them for people. Pure: it prints nothing. `report_document` has the document
for programs.

Link bytes are payload (q, new k and v down; O, L, T up). Descriptors, status and what clears outputs before a start are
overhead and stand apart. Bytes that reach a card outside the lists (page checksums, rows brought in by prefill) are
uploads, apart as well.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from nearkv_driver.regmap import WORD_BYTES

if TYPE_CHECKING:
    from nearkv.generate import GenerationResult
    from nearkv.stats import CardStats, StoreStats

_PATHS = {"p2p": "P2P", "bounce": "bounce through host memory"}
_IO = {"direct": "direct", "buffered": "buffered (page cache possible)"}


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    name: str
    value: str


def human_bytes(nbytes: int) -> str:
    """`nbytes` with the largest binary unit that leaves at least 1: 512 B, 1.5 KiB, 20.3 MiB."""
    if nbytes < 0:
        raise ValueError(f"nbytes is {nbytes}; a count of bytes is not negative")
    if nbytes < 1024:
        return f"{nbytes} B"
    value = float(nbytes)
    for unit in ("KiB", "MiB", "GiB", "TiB"):
        value /= 1024
        if round(value, 1) < 1024:
            return f"{value:.1f} {unit}"
    return f"{value / 1024:.1f} PiB"


def rate(tokens: int, seconds: float) -> float | None:
    """Tokens per second; None where nothing was timed."""
    return tokens / seconds if tokens > 0 and seconds > 0 else None


def link_nbytes(stats: StoreStats) -> int:
    """Payload over the link, both ways, all cards."""
    return sum(card.link_down_payload + card.link_up_payload for card in stats.cards)


def kernel_nbytes(stats: StoreStats) -> int:
    """K and V that the kernels read from card memory, all cards."""
    return total(stats, "kernel_beats") * WORD_BYTES


def link_ratio(stats: StoreStats) -> float | None:
    """How many times more host offload would have moved; None where nothing crossed the link."""
    moved = link_nbytes(stats)
    return stats.host_offload_nbytes / moved if moved else None


def write_ratio(stats: StoreStats, journal_nbytes: int = 0) -> float | None:
    """Bytes written to data files, indexes and journal per byte of K and V in them; None where nothing was written, or
    what was written to the indexes is not known."""
    payload, index = stats.payload_written_nbytes, index_write_nbytes(stats)
    if not payload or index is None:
        return None
    return (journal_nbytes + total(stats, "media_write_nbytes") + index) / payload


def index_write_nbytes(stats: StoreStats) -> int | None:
    """Of all cards; None where it is not known of one."""
    known = [card.index_write_nbytes for card in stats.cards if card.index_write_nbytes is not None]
    return sum(known) if len(known) == len(stats.cards) else None


def endurance_used(card: CardStats) -> float | None:
    """Share of the drive's rated life: bytes written / rated bytes. What the drive writes beyond them inside, and the
    index, are not in it. None where the rating is not known."""
    return card.media_write_nbytes / card.endurance_nbytes if card.endurance_nbytes else None


def kernel_s(card: CardStats) -> float | None:
    """How long the card's kernel worked, by its own clock; None where it counts no cycles or its clock is not known."""
    return card.kernel_cycles / card.clock_hz if card.kernel_cycles and card.clock_hz else None


def per_decoded_token(nbytes: int, result: GenerationResult) -> float | None:
    """Drafted tokens that are accepted share a read, so this is what drafting saves. None where nothing was decoded."""
    return nbytes / result.decode_tokens if result.decode_tokens else None


def total(stats: StoreStats, field: str) -> int:
    """The sum of a counter over all cards."""
    return sum(int(getattr(card, field)) for card in stats.cards)


def rows(result: GenerationResult) -> list[Row]:
    """The table, top to bottom."""
    stats = result.stats
    down = sum(card.link_down_payload for card in stats.cards)
    up = sum(card.link_up_payload for card in stats.cards)
    ratio = link_ratio(stats)
    table = [
        Row("prefill", _speed(result.prefill_tokens, result.prefill_s)),
        Row("decode", _speed(result.decode_tokens, result.decode_s)),
    ]
    table += [Row(f"KV on {short_url(card.url)}", _card(card)) for card in stats.cards]
    table += [
        Row("link bytes", f"{human_bytes(down + up)} ({human_bytes(down)} down, {human_bytes(up)} up)"),
        Row("host offload would move", human_bytes(stats.host_offload_nbytes)),
        Row("ratio", "nothing moved" if ratio is None else f"{ratio:.1f} (host offload / link)"),
        Row("overhead", f"{human_bytes(total(stats, 'link_overhead'))} of lists, status and cleared outputs"),
        Row("uploads", f"{human_bytes(total(stats, 'upload_nbytes'))} outside the lists"),
        Row("bounced", f"{human_bytes(total(stats, 'bounce_nbytes'))} from drives through host memory"),
        Row("read by kernels", _kernel(result)),
        Row("media read", human_bytes(total(stats, "media_read_nbytes"))),
        Row("media written", _written(stats)),
        Row("device bytes", _device(result)),
        Row("endurance used", _endurance(stats)),
        Row("write buffer", _buffer(stats)),
        Row("spills", _spills(stats)),
    ]
    if streamed := total(stats, "streamed_nbytes"):
        ahead = f"{total(stats, 'waves_ahead')} of {total(stats, 'waves')} waves begun ahead"
        share = _per_token(streamed, result)
        table.append(Row("streamed", f"{human_bytes(streamed)} that card memory does not hold{share}; {ahead}"))
    table += [Row(f"kernel of {short_url(card.url)}", _time(card)) for card in stats.cards if card.kernel_cycles]
    if stats.evicted:
        table.append(Row("evicted", f"K and V of {stats.evicted} sessions, unused for longest: space was short"))
    table += [Row(f"path of {short_url(card.url)}", _path(card)) for card in stats.cards]
    if saturated := total(stats, "saturated_jobs"):
        table.append(Row("saturated scores", f"in {saturated} jobs: the attention there is clipped"))
    return table


def short_url(url: str) -> str:
    """A card's URL without its options, for a table."""
    return url.partition("?")[0]


def _speed(tokens: int, seconds: float) -> str:
    per_s = rate(tokens, seconds)
    return "nothing to do" if per_s is None else f"{per_s:.1f} tokens/s ({tokens} tokens in {seconds:.2f} s)"


def _card(card: CardStats) -> str:
    return (
        f"{human_bytes(card.kv_nbytes)} in {card.pairs} (sequence, KV head) pairs, "
        f"{human_bytes(card.dram_nbytes)} of card memory"
    )


def _kernel(result: GenerationResult) -> str:
    nbytes = kernel_nbytes(result.stats)
    return f"{human_bytes(nbytes)} of K and V in card memory{_per_token(nbytes, result)}"


def _time(card: CardStats) -> str:
    text, seconds = f"{card.kernel_cycles:,} cycles", kernel_s(card)
    if seconds is not None:
        gb_s = card.kernel_beats * WORD_BYTES / seconds / 1e9
        text += f": {seconds * 1e3:.3f} ms at {card.clock_hz / 1e6:g} MHz, K and V at {gb_s:.1f} GB/s"
    return f"{text}, simulated" if card.simulated else text


def _per_token(nbytes: int, result: GenerationResult) -> str:
    share = per_decoded_token(nbytes, result)
    return "" if share is None else f", {human_bytes(int(share))} per decoded token"


def _written(stats: StoreStats) -> str:
    written = human_bytes(total(stats, "media_write_nbytes"))
    index = index_write_nbytes(stats)
    known = "an unknown amount" if index is None else human_bytes(index)
    ratio = write_ratio(stats)
    times = "" if ratio is None else f" (ratio {ratio:.2f})"
    return f"{written} and {known} of index for {human_bytes(stats.payload_written_nbytes)} of K and V{times}"


def _device(result: GenerationResult) -> str:
    if result.device is None:
        return "the system does not count them"
    read, written = human_bytes(result.device.read), human_bytes(result.device.written)
    return f"{read} read, {written} written by the whole process, as the system counts"


def _endurance(stats: StoreStats) -> str:
    used = [share for card in stats.cards if (share := endurance_used(card)) is not None]
    if not used:
        return "the drives' rating is not known"
    return f"{max(used):.1e} of the rating, most used drive; without what drives write inside"


def _buffer(stats: StoreStats) -> str:
    now, peak = human_bytes(stats.write_buffer_nbytes), human_bytes(stats.write_buffer_peak_nbytes)
    return f"{now} now, {peak} at most, limit {human_bytes(stats.write_buffer_limit_nbytes)}"


def _spills(stats: StoreStats) -> str:
    text = f"{stats.spills} done, {stats.spills_failed} failed"
    return f"{text}, {stats.spill_waits} calls waited {stats.spill_wait_s:.2f} s for a drive"


def _path(card: CardStats) -> str:
    refused = f", direct refused by {card.direct_refusals} files" if card.direct_refusals else ""
    return f"{_PATHS.get(card.path, card.path)}, {io_name(card.io)}{refused}"


def io_name(io: str) -> str:
    """How files are read, for people: buffered reads may not come from a drive at all."""
    return _IO.get(io, io)
