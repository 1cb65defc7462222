# SPDX-License-Identifier: Apache-2.0
"""`nearkv generate --session`: one turn of a session, and what the report says of the session."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nearkv.device_io import device_bytes, since
from nearkv.errors import UserError
from nearkv.generate import GenerationResult, OnStage
from nearkv.report import Row, human_bytes, write_ratio
from nearkv.session.chat import Session
from nearkv.session.folder import DEFAULT_TENANT, check_label
from nearkv.session.records import Sampling
from nearkv.session.watch import SessionReply
from nearkv.stats import StoreStats
from nearkv.streaming import OnText
from nearkv.timeline import Timeline


@dataclass(frozen=True)
class SessionOptions:
    """`sampling` None: as the turn before, at first greedy."""

    name: str
    tenant: str
    journal_every: int
    sampling: Sampling | None


@dataclass(frozen=True)
class SessionTold:
    """Rows for the top of the table, and what the JSON document has beside the rest."""

    rows: tuple[Row, ...] = ()
    document: dict[str, Any] = field(default_factory=dict)


def session_options(
    name: str | None,
    tenant: str | None,
    journal_every: int | None,
    temperature: float | None,
    top_k: int | None,
    top_p: float | None,
    seed: int | None,
) -> SessionOptions | None:
    """None where no session is asked for; UserError for an option that needs one, or a value that is not allowed."""
    drawing: dict[str, Any] = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "seed": seed}
    given = {option: value for option, value in drawing.items() if value is not None}
    if name is None:
        for option, value in {"tenant": tenant, "journal_every": journal_every, **given}.items():
            if value is not None:
                raise UserError(f"--{option.replace('_', '-')} goes with --session NAME")
        return None
    check_label("session name", name)
    if given and not temperature and set(given) != {"temperature"}:
        raise UserError("--top-k, --top-p and --seed need --temperature above 0: without it nothing is drawn")
    try:
        sampling = Sampling(**given) if given else None
    except ValueError as error:
        raise UserError(str(error)) from error
    return SessionOptions(
        name, DEFAULT_TENANT if tenant is None else tenant, 1 if journal_every is None else journal_every, sampling
    )


def run_turn(
    options: SessionOptions,
    prompt: str | None,
    *,
    model: str | Path,
    cards: Sequence[str],
    max_new_tokens: int,
    threads: int | None,
    device: str,
    prefill_chunk: int | None,
    cache_dir: str | os.PathLike[str] | None,
    chat_template: bool,
    on_stage: OnStage,
    on_text: OnText,
    timeline: Timeline | None,
) -> tuple[GenerationResult, SessionTold]:
    """A turn with `prompt`, or with None what is left of the turn that was cut off."""
    with Session.open(
        options.name,
        model=model,
        cards=cards,
        tenant=options.tenant,
        create=prompt is not None,
        journal_every=options.journal_every,
        device=device,
        threads=threads,
        cache_dir=cache_dir,
        on_stage=on_stage,
        timeline=timeline,
    ) as session:
        moved, before, cut = device_bytes(), len(session.tokens), session.unfinished
        if prompt is None:
            reply = session.go_on(on_text=on_text)
        else:
            reply = session.say(
                prompt,
                max_new_tokens=max_new_tokens,
                sampling=options.sampling,
                chat_template=chat_template,
                prefill_chunk=prefill_chunk,
                on_text=on_text,
            )
        restored, tokens, journal = session.restored, len(session.tokens), session.journal_nbytes
        torn = session.torn_nbytes
    stats, device_moved = session.stats(), since(moved)  # closed: all that was written is counted
    result = GenerationResult(
        (reply.text,),
        (reply.tokens,),
        reply.prompt_tokens,
        reply.prefill_s,
        max(0, reply.new_tokens - 1),
        reply.decode_s,
        stats,
        device=device_moved,
    )
    words = [f"{tokens} tokens", f"{before} of them from before"]
    if cut:
        words.append("the last turn had been cut off")
    taken = [f"{restored.stored} from the volumes", f"{restored.recomputed} computed again"]
    taken += [f"{restored.dropped} dropped"] if restored.dropped else []
    taken += [f"{restored.lost} lost ({restored.reason})"] if restored.lost else []
    taken += [f"{torn} bytes at the journal's end were no whole record"] if torn else []
    rows = (
        Row(f"session {options.name}", ", ".join(words)),
        Row("K and V when opened", ", ".join(taken)),
        Row("prompt shared", _shared(reply)),
        Row("written", _written(stats, journal)),
        Row("journal", f"{human_bytes(journal)}; a power cut may lose {_lost(options.journal_every)}, a kill none"),
    )
    document = {
        "session": {
            "name": options.name,
            "tenant": options.tenant,
            "tokens": tokens,
            "reason": reply.reason,
            "was_cut_off": cut,
            "stored_tokens": restored.stored,
            "recomputed_tokens": restored.recomputed,
            "dropped_tokens": restored.dropped,
            "lost_tokens": restored.lost,
            "lost_reason": restored.reason,
            "shared_tokens": reply.shared_tokens,
            "journal_write_bytes": journal,
            "write_to_payload_ratio": write_ratio(stats, journal),
            "prompt_tokens": reply.prompt_tokens,
            "torn_journal_bytes": torn,
            "journal_every": options.journal_every,
        }
    }
    return result, SessionTold(rows, document)


def _shared(reply: SessionReply) -> str:
    tokens = reply.prompt_tokens + reply.shared_tokens
    share = f" ({reply.shared_tokens / tokens:.0%})" if tokens else ""
    return f"{reply.shared_tokens} of {tokens} tokens with another session{share}"


def _written(stats: StoreStats, journal: int) -> str:
    ratio = write_ratio(stats, journal)
    if ratio is None and stats.payload_written_nbytes:
        return "how much of the index is not known on this system"
    return "no K and V yet" if ratio is None else f"{ratio:.2f} bytes with index and journal per byte of K and V"


def _lost(every: int) -> str:
    """Tokens that were handed out and are not durable yet, at most."""
    if every == 0:
        return "the tokens of the turn"
    return "no token" if every == 1 else f"the last {every - 1} tokens"
