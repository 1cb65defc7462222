# SPDX-License-Identifier: Apache-2.0
"""`nearkv generate`: texts on stdout as they grow, progress on stderr, then the figures as a table or as JSON."""

from __future__ import annotations

import json
import sys
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from nearkv import rates
from nearkv.cli.output_file import output_file
from nearkv.cli.printer import TextPrinter
from nearkv.cli.progress import Progress
from nearkv.cli.run import Run
from nearkv.cli.session_turn import SessionOptions, SessionTold, run_turn, session_options
from nearkv.cli.table import two_columns
from nearkv.cli.timing import Timing
from nearkv.config import DEFAULT_MODEL, DEFAULT_NEW_TOKENS, load_settings
from nearkv.errors import UserError
from nearkv.generate import GenerationResult, generate
from nearkv.report import rows
from nearkv.report_document import document
from nearkv.timeline import Timeline, chrome_trace
from nearkv.waveforms import with_waves

# More text than any model's context; a device such as /dev/zero has no end.
_PROMPT_NBYTES_MAX = 64 << 20


@dataclass(frozen=True)
class Request:
    """The options as given; empty `cards` means the default ones."""

    model: str
    prompts: tuple[str, ...]
    prompt_files: tuple[Path, ...]
    cards: tuple[str, ...]
    max_new_tokens: int
    threads: int | None
    device: str
    micro_batches: int | None
    prefill_chunk: int | None
    prompt_lookup: int | None
    raw: bool
    as_json: bool
    trace: Path | None
    timing: str | None = None
    session: SessionOptions | None = None
    wave: Path | None = None


def command(
    model: Annotated[
        str, typer.Option(help="A model's name, a folder in transformers' format, or a GGUF file.")
    ] = DEFAULT_MODEL,
    prompt: Annotated[list[str] | None, typer.Option(help="A prompt; give it again for a batch.")] = None,
    prompt_file: Annotated[
        list[Path] | None, typer.Option(help="A UTF-8 file that holds one prompt; may be given again.")
    ] = None,
    card: Annotated[
        list[str] | None,
        typer.Option(
            help="URL of a card, e.g. sw_emu:0?dram=4G&ssd=FOLDER; give it again for more cards. "
            "Default: NEARKV_CARDS, else two emulated cards with temporary volumes."
        ),
    ] = None,
    max_new_tokens: Annotated[int, typer.Option(min=1, help="New tokens per prompt, at most.")] = DEFAULT_NEW_TOKENS,
    threads: Annotated[
        int | None, typer.Option(min=1, help="Threads for the model. Default: NEARKV_THREADS, else all CPUs.")
    ] = None,
    device: Annotated[
        str, typer.Option(help="Where the model computes: auto, cpu or cuda. Attention over the cache is the cards'.")
    ] = "auto",
    micro_batches: Annotated[
        int | None,
        typer.Option(
            min=1, help="Parts of the batch in flight: one at the cards, another computed. Default: 2 on CUDA, else 1."
        ),
    ] = None,
    prefill_chunk: Annotated[
        int | None, typer.Option(min=1, help="Process prompts in chunks of so many tokens, which bounds memory.")
    ] = None,
    prompt_lookup: Annotated[
        int | None, typer.Option(min=1, help="Draft so many tokens from the prompt where its end repeats (one prompt).")
    ] = None,
    raw: Annotated[
        bool, typer.Option("--raw", "--no-chat-template", help="Continue the prompt as it is: no chat template.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on stdout and nothing else.")] = False,
    trace: Annotated[
        Path | None, typer.Option(help="Write what host, link, drive and kernel did when, for ui.perfetto.dev.")
    ] = None,
    session: Annotated[
        str | None,
        typer.Option(help="Go on with this session, or begin it; without a prompt finish the turn that was cut off."),
    ] = None,
    tenant: Annotated[str | None, typer.Option(help="With --session: whose it is; tenants share nothing.")] = None,
    journal_every: Annotated[
        int | None,
        typer.Option(min=0, help="With --session: sync the journal after so many tokens (0: after turns). Default: 1."),
    ] = None,
    temperature: Annotated[
        float | None, typer.Option(help="With --session: draw tokens; 0 takes the most probable one.")
    ] = None,
    top_k: Annotated[int | None, typer.Option(help="With --session: draw among so many tokens.")] = None,
    top_p: Annotated[float | None, typer.Option(help="With --session: draw among this share of probability.")] = None,
    seed: Annotated[int | None, typer.Option(help="With --session: what the draws depend on.")] = None,
    wave: Annotated[
        Path | None,
        typer.Option(help="Write every signal of the RTL of hw_emu cards as FST; of several, one file per card."),
    ] = None,
    timing: Annotated[
        str | None, typer.Option(help="Beside wall time: what the lists would take on a real card, e.g. smartssd.")
    ] = None,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> Run:
    """Generate text, its KV cache on the cards: greedily, unless a session is told to draw."""
    options = session_options(session, tenant, journal_every, temperature, top_k, top_p, seed)
    request = Request(
        model=model,
        prompts=tuple(prompt or ()),
        prompt_files=tuple(prompt_file or ()),
        cards=tuple(card or ()),
        max_new_tokens=max_new_tokens,
        threads=threads,
        device=device,
        micro_batches=micro_batches,
        prefill_chunk=prefill_chunk,
        prompt_lookup=prompt_lookup,
        raw=raw,
        as_json=as_json,
        trace=trace,
        session=options,
        wave=wave,
        timing=timing,
    )
    return Run(partial(run, request), debug)


def run(request: Request) -> int:
    """Generates and shows what the request asks for. UserError before any card is opened."""
    prompts = [*request.prompts, *(read_prompt(path) for path in request.prompt_files)]
    if not prompts and request.session is None:
        raise UserError("no prompt: give --prompt TEXT or --prompt-file FILE")
    timing = None if request.timing is None else Timing.of(request.timing, request.prefill_chunk, request.prompt_lookup)
    if request.wave is not None:
        if request.trace is not None and request.wave.resolve() == request.trace.resolve():
            raise UserError(f"--wave and --trace name the same file {request.wave}; give each its own")
        request = replace(request, cards=with_waves(request.cards or load_settings().cards, request.wave))
    # Rates and what was hidden are told with a trace, and beside a card that they can be held against.
    timeline = None if request.trace is None and timing is None else Timeline()
    told = SessionTold()
    with output_file(request.trace, "trace file") as trace:  # what cannot be written shows before the work
        if request.session is None:
            result = _generate(request, prompts, timeline)
        else:
            result, told = _session_turn(request, request.session, prompts, timeline)
        if trace is not None and timeline is not None:
            trace.fill_text(json.dumps(chrome_trace(timeline)) + "\n")
    found = [] if timeline is None else rates.card_rates(timeline, result.stats.cards)
    limits = None if timing is None else timing.limits
    if request.as_json:
        more: dict[str, object] = {} if timeline is None else {"rates": rates.document(found, limits)}
        more |= {} if timing is None else {"timing": timing.document(result)}
        sys.stdout.write(json.dumps(document(result) | told.document | more, indent=2) + "\n")
    else:
        sys.stdout.write("\n")
        times = rates.rows(found, limits) + ([] if timing is None else timing.rows(result))
        Console(file=sys.stdout).print(two_columns([*told.rows, *rows(result), *times]))
    return 0


def read_prompt(path: Path) -> str:
    """The file's text without the line end that editors put last. UserError says why it cannot be read."""
    try:
        with path.open("rb") as file:
            data = file.read(_PROMPT_NBYTES_MAX + 1)
        if len(data) > _PROMPT_NBYTES_MAX:
            raise UserError(f"prompt file {path}: more than {_PROMPT_NBYTES_MAX} bytes, which is no prompt")
        text = data.decode("utf-8-sig")
    except OSError as error:
        raise UserError(f"prompt file {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UserError(f"prompt file {path}: not UTF-8 text at byte {error.start}") from error
    return text.removesuffix("\n").removesuffix("\r")


def _generate(request: Request, prompts: list[str], timeline: Timeline | None) -> GenerationResult:
    printer = TextPrinter(_discard if request.as_json else _write, prompts)
    settings = load_settings()
    with closing(printer), Progress(Console(stderr=True)) as progress:

        def on_text(index: int, piece: str) -> None:
            progress.stop()  # before text appears: both may be on one terminal
            printer.text(index, piece)

        return generate(
            prompts,
            model=request.model,
            cards=request.cards or settings.cards,
            max_new_tokens=request.max_new_tokens,
            threads=request.threads or settings.threads,
            device=request.device,
            micro_batches=request.micro_batches,
            prefill_chunk=request.prefill_chunk,
            prompt_lookup=request.prompt_lookup,
            cache_dir=settings.cache_dir,
            chat_template=not request.raw,
            on_stage=progress.stage,
            on_prefill=progress.prefill,
            on_text=on_text,
            on_end=printer.end,
            timeline=timeline,
        )


def _session_turn(
    request: Request, session: SessionOptions, prompts: list[str], timeline: Timeline | None
) -> tuple[GenerationResult, SessionTold]:
    for name in ("micro_batches", "prompt_lookup"):
        if getattr(request, name) is not None:
            raise UserError(f"--{name.replace('_', '-')} does not go with --session: its steps are of one token each")
    if request.timing is not None:
        raise UserError("--timing does not go with --session: a turn's counters are of more than its decode steps")
    if len(prompts) > 1:
        raise UserError(f"{len(prompts)} prompts; a turn of a session has one")
    printer = TextPrinter(_discard if request.as_json else _write, ["turn"])
    settings = load_settings()
    with closing(printer), Progress(Console(stderr=True)) as progress:

        def on_text(index: int, piece: str) -> None:
            progress.stop()
            printer.text(index, piece)

        result, told = run_turn(
            session,
            prompts[0] if prompts else None,
            model=request.model,
            cards=request.cards or settings.cards,
            max_new_tokens=request.max_new_tokens,
            threads=request.threads or settings.threads,
            device=request.device,
            prefill_chunk=request.prefill_chunk,
            cache_dir=settings.cache_dir,
            chat_template=not request.raw,
            on_stage=progress.stage,
            on_text=on_text,
            timeline=timeline,
        )
        printer.end(0)
    return result, told


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def _discard(text: str) -> None:
    """With --json the texts are in the document."""
