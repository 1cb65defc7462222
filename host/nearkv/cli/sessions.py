# SPDX-License-Identifier: Apache-2.0
"""`nearkv sessions`: list, show, fork, remove, verify, export and import what `generate --session` keeps."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from nearkv.cli import sessions_verify
from nearkv.cli.progress import Progress
from nearkv.cli.run import Run
from nearkv.cli.table import columns, two_columns
from nearkv.config import load_settings
from nearkv.errors import UserError
from nearkv.inputs import check_cards
from nearkv.report import Row, human_bytes
from nearkv.session.folder import DEFAULT_TENANT, check_label
from nearkv.session.repair import fork_session, open_store
from nearkv.session.store_folders import StoreFolders, Summary
from nearkv.session.transfer import SessionFile, check_import, export_session, import_session
from nearkv.volume_folders import volume_folder

app = typer.Typer(help="Look at stored conversations, copy, check, move and remove them.", no_args_is_help=True)

_Card = Annotated[
    list[str] | None,
    typer.Option(
        "--card",
        "-c",
        help="Card URL with ssd=FOLDER, as for generate; again for each card. Default: NEARKV_CARDS.",
    ),
]
_Tenant = Annotated[str, typer.Option(help="Whose sessions.")]
_Name = Annotated[str, typer.Argument(help="The session's name.")]
_New = Annotated[str, typer.Argument(help="The new session's name.")]
_Output = Annotated[Path, typer.Argument(help="The file to write (safetensors); it must not exist.")]
_Json = Annotated[bool, typer.Option("--json", help="One JSON document on stdout and nothing else.")]
_Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]


@app.command("list")
def list_(
    card: _Card = None,
    tenant: Annotated[str | None, typer.Option(help="Only this tenant's.")] = None,
    as_json: _Json = False,
    debug: _Debug = False,
) -> Run:
    """Names, turns and tokens of all sessions. Works while one of them is in use."""
    return Run(partial(_list, card, tenant, as_json), debug)


@app.command()
def show(
    name: _Name, card: _Card = None, tenant: _Tenant = DEFAULT_TENANT, as_json: _Json = False, debug: _Debug = False
) -> Run:
    """What is known of one session."""
    return Run(partial(_show, card, name, tenant, as_json), debug)


@app.command()
def fork(name: _Name, new: _New, card: _Card = None, tenant: _Tenant = DEFAULT_TENANT, debug: _Debug = False) -> Run:
    """A second session that begins with all of this one. Its pages are shared, not copied."""
    return Run(partial(_fork, card, name, new, tenant), debug)


@app.command()
def rm(name: _Name, card: _Card = None, tenant: _Tenant = DEFAULT_TENANT, debug: _Debug = False) -> Run:
    """Remove a session; its space is free again. Pages that others share stay."""
    return Run(partial(_rm, card, name, tenant), debug)


@app.command()
def verify(
    name: Annotated[str | None, typer.Argument(help="The session's name; without one, all sessions.")] = None,
    card: _Card = None,
    tenant: _Tenant = DEFAULT_TENANT,
    repair: Annotated[
        str | None,
        typer.Option(
            help="What to do about bad pages: recompute (they are dropped, and computed from the tokens when the "
            "session is opened) or drop (the session ends before them; of one that is named, also before the damage of "
            "its journal, and K and V that are not of its journal's tokens go). Default: only tell."
        ),
    ] = None,
    as_json: _Json = False,
    debug: _Debug = False,
) -> Run:
    """Read every page and compare it with its checksum. Exit code 1 when something is bad and was not repaired."""
    return Run(partial(_verify, card, name, tenant, repair, as_json), debug)


@app.command()
def export(
    name: _Name, file: _Output, card: _Card = None, tenant: _Tenant = DEFAULT_TENANT, debug: _Debug = False
) -> Run:
    """Write a session with its K and V to one file."""
    return Run(partial(_export, card, name, file, tenant), debug)


@app.command("import")
def import_(
    file: Annotated[Path, typer.Argument(help="A file that export wrote.")],
    name: Annotated[str | None, typer.Option(help="The new session's name. Default: as in the file.")] = None,
    card: _Card = None,
    tenant: _Tenant = DEFAULT_TENANT,
    debug: _Debug = False,
) -> Run:
    """Make a session of a file that export wrote. The volumes must be those of the same model."""
    return Run(partial(_import, card, file, name, tenant), debug)


def _urls(given: Sequence[str] | None) -> list[str]:
    urls = list(given or load_settings().cards)
    for url in check_cards(urls):
        if volume_folder(url) is None:
            raise UserError(f"card {url.text}: sessions lie on volumes; give --card with ssd=FOLDER")
    return urls


def _folders(urls: Sequence[str]) -> StoreFolders:
    parsed = check_cards(urls)
    folders = [folder for url in parsed if (folder := volume_folder(url)) is not None]
    return StoreFolders(folders, direct=all(url.option("io", "direct") == "direct" for url in parsed))


def _list(card: list[str] | None, tenant: str | None, as_json: bool) -> int:
    if tenant is not None:
        check_label("tenant", tenant)
    with _folders(_urls(card)) as folders:
        found = folders.summaries(tenant)
    if as_json:
        sys.stdout.write(json.dumps([asdict(summary) for summary in found], indent=2) + "\n")
        return 0
    if not found:
        sys.stdout.write("no sessions\n")
        return 0
    titles = ("session", "tenant", "turns", "tokens", "stored", "created", "")
    Console(file=sys.stdout).print(columns(titles, map(_line, found)))
    return 0


def _line(summary: Summary) -> tuple[str, ...]:
    counts = (str(summary.turns), str(summary.tokens), str(summary.stored_tokens))
    if summary.error:
        return (summary.name, "", "", "", "", "", summary.error)
    remark = "cut off" if summary.cut_off else ""
    if summary.misfit:
        remark = "K and V do not fit"
    return (summary.name, summary.tenant, *counts, summary.created, remark)


def _show(card: list[str] | None, name: str, tenant: str, as_json: bool) -> int:
    with _folders(_urls(card)) as folders:
        summary = folders.summary(name, tenant)
        nbytes = folders.nbytes(summary.session)
    if as_json:
        sys.stdout.write(json.dumps({**asdict(summary), "nbytes": nbytes}, indent=2) + "\n")
        return 0
    rows = [
        Row("session", summary.name),
        Row("tenant", summary.tenant),
        Row("model", summary.model),
        Row("created", summary.created),
        Row("turns", f"{summary.turns}{', one more was cut off' if summary.cut_off else ''}"),
        Row("tokens", str(summary.tokens)),
        Row("K and V", f"of {summary.stored_tokens} tokens on the volumes, {human_bytes(nbytes)}"),
        Row("sequence", f"session:{summary.session}"),
    ]
    if summary.misfit:
        rows.append(Row("K and V", summary.misfit))
    if summary.torn_nbytes:
        rows.append(Row("journal", f"{summary.torn_nbytes} bytes at its end are no whole record"))
    Console(file=sys.stdout).print(two_columns(rows))
    return 0


def _fork(card: list[str] | None, name: str, new: str, tenant: str) -> int:
    urls = _urls(card)
    with _folders(urls) as folders:
        fork_session(urls, folders, name, new, tenant)
    return 0


def _rm(card: list[str] | None, name: str, tenant: str) -> int:
    with _folders(_urls(card)) as folders:
        folders.remove(name, tenant)
    return 0


def _verify(card: list[str] | None, name: str | None, tenant: str, repair: str | None, as_json: bool) -> int:
    urls = _urls(card)
    with _folders(urls) as folders:
        return sessions_verify.verify(urls, folders, name, tenant, repair, as_json=as_json)


def _export(card: list[str] | None, name: str, file: Path, tenant: str) -> int:
    with _folders(_urls(card)) as folders, Progress(Console(stderr=True)) as progress:
        layers = folders.layout.layers
        export_session(folders, name, tenant, file, lambda i: progress.amount("exporting, layers", i + 1, layers))
    return 0


def _import(card: list[str] | None, file: Path, name: str | None, tenant: str) -> int:
    urls = _urls(card)
    with _folders(urls) as folders, SessionFile(file) as session:
        check_import(folders, session, name, tenant)
        layers = folders.layout.layers
        with open_store(urls, folders) as store, Progress(Console(stderr=True)) as progress:
            show = partial(progress.amount, "importing, layers", total=layers)
            import_session(store, folders, session, name, tenant, lambda layer: show(layer + 1))
    return 0
