# SPDX-License-Identifier: Apache-2.0
"""`nearkv sessions verify`: reads every page of sessions, tells what is bad, and repairs what it is asked to."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence

from rich.console import Console

from nearkv.cli.progress import Progress
from nearkv.errors import UserError
from nearkv.report import human_bytes
from nearkv.scrub import BadPage
from nearkv.session.folder import Entry, check_label
from nearkv.session.repair import REPAIRS, repair_journal, repair_session
from nearkv.session.store_folders import StoreFolders, Summary
from nearkv.volume_errors import VolumeDamaged

_Reports = list[tuple[Summary, list[BadPage], str]]


def verify(
    urls: Sequence[str], folders: StoreFolders, name: str | None, tenant: str, repair: str | None, *, as_json: bool
) -> int:
    """The session `name`, or with None all of the tenant; the exit code."""
    if repair is not None and repair not in REPAIRS:
        raise UserError(f"repair {repair!r}; allowed are {', '.join(REPAIRS)}")
    check_label("tenant", tenant)
    if repair is not None:
        if name is not None:
            folders.sessions.known(name, tenant)
        folders.upgrade()  # what only reads refuses an older format
    reports: _Reports = []
    mended, left, done = "", 0, 0
    with Progress(Console(stderr=True)) as progress:
        if name is not None and repair == "drop":
            summary = _one(folders, name, tenant)
            if summary.error or summary.misfit:
                mended = repair_journal(urls, folders, name, tenant) + "; "
        found = folders.summaries(tenant) if name is None else [_one(folders, name, tenant)]
        total = sum(folders.nbytes(s.session) for s in found if not s.error)

        def on_read(nbytes: int) -> None:
            nonlocal done
            done += nbytes
            progress.amount("verifying, bytes", done, total)

        for summary in found:
            bad = [] if summary.error else folders.verify(summary.session, on_read)
            wrong = summary.error or summary.misfit
            state = wrong or (f"{len(bad)} bad pages" if bad else "good")
            if bad and repair is not None and not wrong:
                state = repair_session(urls, folders, summary, repair)
            elif bad or wrong:
                left += 1
            reports.append((summary, bad, mended + state))
    _show(reports, total, as_json)
    return 1 if left else 0


def _one(folders: StoreFolders, name: str, tenant: str) -> Summary:
    """As in a list: a journal that is damaged is told, not raised."""
    try:
        return folders.summary(name, tenant)
    except VolumeDamaged as error:
        return folders.summary_of(Entry(folders.sessions.known(name, tenant), None, str(error)))


def _show(reports: _Reports, nbytes: int, as_json: bool) -> None:
    if as_json:
        document = [{"name": s.name, "bad": [str(b) for b in bad], "told": told} for s, bad, told in reports]
        sys.stdout.write(json.dumps(document, indent=2) + "\n")
        return
    console = Console(file=sys.stdout)
    for summary, bad, told in reports:
        for page in bad:
            console.print(f"{summary.name}: {page}", markup=False, soft_wrap=True)
        console.print(f"{summary.name}: {told}", markup=False, soft_wrap=True)
    console.print(f"{human_bytes(nbytes)} read", markup=False)
