# SPDX-License-Identifier: Apache-2.0
"""What a session costs: journalled against un-journalled decode, bytes written per byte of K and V, resuming against
prefill, verified against unverified reads. Each part by itself; a table and JSON:

    python benchmarks/session_cost.py journal amplification resume --out build/benchmarks/session_cost.json
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from arguments import whole
from kernel_image import KernelImage
from nearkv.kvstore import KVStore
from nearkv.report import index_write_nbytes, write_ratio
from nearkv.session.chat import Session
from nearkv.session.folder import SEQUENCE_PREFIX, SessionFolder
from nearkv.session.journal import Journal
from nearkv.session.records import Record, Sampling, Token
from nearkv.session.steps import SessionSteps
from nearkv_emulation.rtl import RtlCard, RtlKernel
from rich.console import Console
from shapes import SMOLLM2

CARDS = 2


@dataclass(frozen=True)
class Figure:
    """`value` against `goal`, and what it was made of."""

    name: str
    value: float
    goal: str
    parts: str


def urls(folder: Path) -> list[str]:
    return [f"sw_emu:{i}?dram=1G&ssd={folder}/card{i}" for i in range(CARDS)]


class HalfJournal:
    """A journal that gets every other token: its cost shows beside steps without it, in the same session.

    The even ones up to `half`, then the odd ones, so that what else tells even steps from odd ones cancels.
    """

    def __init__(self, inner: Journal, half: int) -> None:
        self._inner, self._half, self.tokens, self._left_out = inner, half, 0, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    @property
    def records(self) -> int:
        """As if it had them all, so that nobody looks for those that were left out."""
        return self._inner.records + self._left_out

    @property
    def takes(self) -> bool:
        """Whether the newest token went into the journal."""
        return self.tokens % 2 == (self.tokens > self._half)

    def append(self, record: Record) -> None:
        if isinstance(record, Token):
            self.tokens += 1
            if not self.takes:
                self._left_out += 1
                return
        self._inner.append(record)


def journal(folder: Path, tokens: int) -> list[Figure]:
    """Median step with and without the journal's record and sync, alternating, real model.

    By the clock, so on a quiet machine: where others use the CPU, whoever waits for a drive gets it back late, and the
    clock shows that as the journal's cost.
    """
    steps: tuple[list[float], list[float]] = ([], [])
    appends: list[float] = []
    with Session.open("cost", cards=urls(folder), share=False, threads=1) as session:
        half: Any = HalfJournal(session._parts.journal, tokens // 2)
        session._parts.steps._journal = half
        last = [0.0]

        def told(_: int, __: str) -> None:
            pass

        inner = session._parts.steps.go_on

        def go_on(*, ends: Any, on_token: Callable[[int], None]) -> Any:
            def timed(token: int) -> None:
                now = time.perf_counter()
                if half.tokens > 2:
                    steps[not half.takes].append(now - last[0])
                on_token(token)
                last[0] = time.perf_counter()

            return inner(ends=(), on_token=timed)

        session._parts.steps.go_on = go_on  # type: ignore[method-assign,assignment]
        session.say("Tell me a long story about a river.", max_new_tokens=tokens, on_text=told)
        real = session._parts.journal
        for _ in range(50):
            began = time.perf_counter()
            real.append(Token(1))
            appends.append(time.perf_counter() - began)
        die(session)
    without_s, sync_s = median(steps[1]), median(appends)
    with_s = median(steps[0])
    return [
        Figure(
            "journalled / un-journalled decode",
            without_s / with_s,
            ">= 0.95",
            f"{with_s * 1e3:.1f} ms and {without_s * 1e3:.1f} ms per token, medians of {len(steps[0])} each; a "
            f"record and its sync in it {sync_s * 1e3:.2f} ms",
        )
    ]


def die(session: Session) -> None:
    """The journal of this session is not to be read again."""
    session._parts.steps.close()


class RandomRows:
    """A network that stores random rows; `choose` counts."""

    def __init__(self, store: KVStore, sequence: int) -> None:
        self._store, self._sequence = store, sequence
        self._random = np.random.default_rng(1)

    @property
    def cached(self) -> int:
        return self._store.length(self._sequence)

    @property
    def held(self) -> Sequence[int | None]:
        return self._store.token_ids(self._sequence)

    def guard(self, before_durable: Callable[[], None]) -> None:
        self._store.guard(self._sequence, before_durable)

    def crop(self, tokens: int) -> None:
        self._store.crop(self._sequence, tokens)

    def forward(self, tokens: Sequence[int]) -> None:
        self._store.note(self._sequence, tokens)
        shape = (1, SMOLLM2.kv_heads, len(tokens), SMOLLM2.head_size)
        for layer in range(SMOLLM2.layers):
            k, v = (self._random.normal(size=shape).astype(np.float16) for _ in range(2))
            self._store.append(layer, [self._sequence], k, v)

    def choose(self, scores: None, sampling: Sampling, position: int) -> int:
        return position

    def flush(self) -> None:
        self._store.flush()


def amplification(folder: Path, tokens: int) -> list[Figure]:
    """Bytes to data files, index and journal while a session of SmolLM2's shape decodes, default settings."""
    sessions = SessionFolder(folder / "card0")
    with KVStore.open(SMOLLM2, urls(folder)) as store:
        log, header = sessions.create("cost", SMOLLM2.model)
        sequence = store.add_sequence(SEQUENCE_PREFIX + header.session)
        with log, SessionSteps(log, sessions.read("cost").state, RandomRows(store, sequence)) as steps:
            steps.say([1], max_new_tokens=tokens)
            store.flush()
    stats = store.stats()  # closed: with what closing wrote
    index = index_write_nbytes(stats)
    ratio = write_ratio(stats, log.write_nbytes)
    if index is None or ratio is None:
        raise SystemExit("this system does not tell what a thread writes: /proc/thread-self/io cannot be read")
    data = sum(card.media_write_nbytes for card in stats.cards)
    parts = f"{data} data, {index} index, {log.write_nbytes} journal for {stats.payload_written_nbytes} of K and V"
    return [Figure(f"bytes written per byte of K and V, {tokens} tokens", ratio, "<= 1.10", parts)]


def resume(folder: Path, tokens: int) -> list[Figure]:
    """Opening a stored session of so many tokens against computing its prefill, real model."""
    text = " ".join(str(i) for i in range(tokens))
    with Session.open("cost", cards=urls(folder), share=False) as session:
        ids = session._parts.tokenizer(text, add_special_tokens=False)["input_ids"][:tokens]
        session._parts.begin(ids)
        began = time.perf_counter()
        session._parts.steps.say(ids, max_new_tokens=1, chunk=512)
        prefill_s = time.perf_counter() - began
    with Session.open("other", cards=urls(folder), share=False) as session:
        parts = session._parts
        parts.journal.close()
        parts.journal, found = parts.folder.open("cost")
        assert found.state.header is not None
        parts.header = found.state.header
        began = time.perf_counter()
        parts._adopt(parts.store.open_sequence(parts._sequence_name))
        parts.steps = SessionSteps(parts.journal, found.state, parts._network)
        restored = parts.steps.restore()
        resume_s = time.perf_counter() - began
        parts.journal.close()
    return [
        Figure(
            f"prefill / resume of {len(ids)} tokens",
            prefill_s / resume_s,
            ">= 20",
            f"{prefill_s:.1f} s and {resume_s:.2f} s, {restored.recomputed} tokens computed again, model load apart",
        )
    ]


def verified(folder: Path, tokens: int) -> list[Figure]:
    """An attend job with and without a checksum for each page: cycles of the RTL, with memory of a word a cycle."""
    cycles: dict[bool, int] = {}
    with RtlCard() as card:
        kernel = RtlKernel(card)
        for checks in (False, True):
            image = KernelImage(SMOLLM2.head_size, SMOLLM2.group, tokens, checks)
            before = card.cycles
            image.run(kernel)
            cycles[checks] = card.cycles - before
    return [
        Figure(
            f"verified / unverified reads, {tokens} tokens, RTL",
            cycles[False] / cycles[True],
            ">= 0.97",
            f"{cycles[True]} and {cycles[False]} cycles",
        )
    ]


PARTS: dict[str, tuple[Callable[[Path, int], list[Figure]], int]] = {
    "journal": (journal, 160),
    "amplification": (amplification, 2000),
    "resume": (resume, 8000),
    "verified": (verified, 4096),
}


def main() -> None:
    parser = argparse.ArgumentParser(description="What a session costs.")
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], help="default: all")
    parser.add_argument("--tokens", type=whole(), help="instead of each part's own number")
    parser.add_argument("--folder", type=Path, help="where the volumes are made and removed; default: TMPDIR")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    figures: list[Figure] = []
    console = Console()
    for name in options.parts or PARTS:
        measure, tokens = PARTS[name]
        with tempfile.TemporaryDirectory(prefix="nearkv-", dir=options.folder) as folder:
            for figure in measure(Path(folder), options.tokens or tokens):
                figures.append(figure)
                console.print(f"{figure.name}: {figure.value:.3f} (goal {figure.goal}): {figure.parts}", soft_wrap=True)
    if options.out:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps([asdict(figure) for figure in figures], indent=2) + "\n")


if __name__ == "__main__":
    main()
