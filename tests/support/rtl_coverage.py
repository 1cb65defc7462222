# SPDX-License-Identifier: Apache-2.0
"""Functional coverage of the RTL kernel: which crossings jobs that it ran have hit, told by descriptors and statuses.

Counts what was in memory before and after a run, never what a test meant to do. Judges no result.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from nearkv_driver import regmap as rm
from numpy.typing import NDArray

from tests.support.jobs import Image

Bin = tuple[str, ...]
ROWS = ("1", "2-8", "9-32", "33-64")
LENGTHS = ("0", "1", "2-15", "16", "17-127", "128", "129+")
ENDS = ("ok", "error")
# Codes that end one job. bad_list has no job, not_run no verdict.
ERRORS = tuple(code.name.lower() for code in rm.Status if code >= rm.Status.BAD_JOB)
FEATURES = ("window", "raw", "state in", "state out", "no output", "new rows", "tail", "checked", "unchecked")
FEATURES += ("several segments", "several query tokens", "saturated")
HEADS = tuple(str(size) for size in rm.HEAD_SIZES)


def required() -> dict[str, set[Bin]]:
    """Every bin that must be hit, by crossing: all that can be. A job of no token has no bad segment, page or element,
    so kinds of error are crossed with the head size alone.
    """
    return {
        "head x rows x length x end": {(h, r, n, e) for h in HEADS for r in ROWS for n in LENGTHS for e in ENDS},
        "head x error": {(h, code) for h in HEADS for code in ERRORS},
        "head x feature": {(h, f) for h in HEADS for f in FEATURES},
    }


def rows_class(rows: int) -> str:
    return ROWS[(rows > 1) + (rows > 8) + (rows > 32)]


def length_class(tokens: int) -> str:
    return LENGTHS[sum(tokens >= edge for edge in (1, 2, 16, 17, 128, 129))]


class Coverage:
    """Counts by crossing and bin; `lists` by where they came from."""

    def __init__(self) -> None:
        self.counts: dict[str, Counter[Bin]] = {name: Counter() for name in required()}
        self.lists: Counter[str] = Counter()

    def record(self, source: str, image: Image, memory: NDArray) -> None:
        """One list that the RTL has run: the image before, and memory after it."""
        self.lists[source] += 1
        for fields, segments, status in _jobs(image, memory):
            head, code = str(fields["head_size"]), rm.Status(status["code"])
            tokens = sum(s["tokens"] for s in segments) + fields["new_tokens"]
            end = "ok" if code == rm.Status.OK else "error"
            bins = (head, rows_class(fields["rows"]), length_class(tokens), end)
            self.counts["head x rows x length x end"][bins] += 1
            if code != rm.Status.OK:
                self.counts["head x error"][head, code.name.lower()] += 1
                continue
            features = {
                "window": fields["window"] > 0,
                "raw": fields["flags"] & rm.JobFlag.RAW,
                "state in": fields["state_in"],
                "state out": fields["state_out"],
                "no output": not fields["out_addr"],
                "new rows": fields["new_tokens"],
                "tail": fields["tail_k_addr"],
                "checked": any(s["crc_addr"] for s in segments),
                "unchecked": any(not s["crc_addr"] for s in segments),
                "several segments": len(segments) > 1,
                "several query tokens": fields["query_tokens"] > 1,
                "saturated": status["flags"] & rm.StatusFlag.SATURATED,
            }
            for name, there in features.items():
                self.counts["head x feature"][head, name] += bool(there)

    def missing(self) -> dict[str, list[Bin]]:
        """Required bins that nothing has hit, by crossing."""
        return {name: sorted(b for b in bins if not self.counts[name][b]) for name, bins in required().items()}

    def table(self) -> str:
        """Hits per crossing, and the bins with their counts, rarest first."""
        lines = [f"lists run on the RTL: {dict(sorted(self.lists.items()))}"]
        for name, bins in required().items():
            hit = sum(self.counts[name][b] > 0 for b in bins)
            lines.append(f"\n{name}: {hit} of {len(bins)}")
            ordered = sorted(bins, key=lambda b: (self.counts[name][b], b))
            lines += [f"  {self.counts[name][b]:6} {' x '.join(b)}" for b in ordered]
        return "\n".join(lines) + "\n"

    def save(self, path: Path) -> None:
        counts = {name: [[*b, n] for b, n in counter.items()] for name, counter in self.counts.items()}
        path.write_text(json.dumps({"lists": self.lists, "counts": counts}))

    def add(self, path: Path) -> None:
        """Counts that another process saved."""
        told = json.loads(path.read_text())
        self.lists.update(told["lists"])
        for name, bins in told["counts"].items():
            for *b, n in bins:
                self.counts[name][tuple(b)] += n


def _jobs(image: Image, memory: NDArray) -> Iterator[tuple[dict[str, int], list[dict[str, int]], dict[str, int]]]:
    """(fields, segments, status) of the attend jobs of a list that have a verdict and descriptors that can be read."""
    before, ctl, out = image.memory, image.at(image.ctl), image.at(image.out)
    header = rm.LIST.unpack(before[ctl : ctl + rm.LIST.nbytes].tobytes())
    for index in range(header["jobs"]):
        at, status_at = ctl + rm.LIST.nbytes + rm.JOB.nbytes * index, out + rm.STATUS.nbytes * index
        if min(at, status_at) < 0 or max(at + rm.JOB.nbytes, status_at + rm.STATUS.nbytes) > len(before):
            return
        fields = rm.JOB.unpack(before[at : at + rm.JOB.nbytes].tobytes())
        status = rm.STATUS.unpack(memory[status_at : status_at + rm.STATUS.nbytes].tobytes())
        sound = fields["head_size"] in rm.HEAD_SIZES and 1 <= fields["rows"] <= rm.ROWS_MAX
        judged = status["code"] == rm.Status.OK or status["code"] >= rm.Status.BAD_JOB
        known = status["code"] in tuple(rm.Status) and status["job"] == index
        start = image.at(fields["segments_addr"]) if fields["segments"] else 0
        end = start + rm.SEGMENT.nbytes * fields["segments"]
        attends = fields["opcode"] == rm.Opcode.ATTEND and fields["new_tokens"] <= rm.NEW_TOKENS_MAX
        if not (sound and known and judged and attends and start >= 0 and end <= len(before)):
            continue
        raw = before[start:end].tobytes()
        yield fields, [rm.SEGMENT.unpack(raw[i : i + 64]) for i in range(0, len(raw), 64)], status


# What this process has run.
MEASURED = Coverage()
