# SPDX-License-Identifier: Apache-2.0
"""How much of the volumes each tenant may have: `tenants.toml` in the sessions folder, read and held against. Pure but
for the reading.

    [NAME]
    quota = "512M"

A tenant that the file does not name, or where there is no file, has no limit of its own. Each session is charged for
all pages that it has, also for those that others share: either may outlive the other, and whoever removes one cannot
push another tenant's session, or one of the same, over its quota. Bytes that are in use are never more than those that
are charged.
"""

from __future__ import annotations

import errno
import re
import tomllib
from pathlib import Path
from typing import Protocol

from nearkv_driver.bounded_file import TEXT_NBYTES_MAX, FileRefused, read_file

from nearkv.errors import UserError
from nearkv.layout import ModelLayout
from nearkv.pages import extents
from nearkv.report import human_bytes
from nearkv.session.folder import SEQUENCE_PREFIX, SessionFolder

FILE_NAME = "tenants.toml"
_SIZE = re.compile(r"([0-9]{1,15})([KMGT]?)")
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


class Charged(Protocol):
    """What a store says of the bytes of its sequences."""

    @property
    def layout(self) -> ModelLayout: ...

    def used_nbytes(self, name: str) -> int:
        """What a named sequence takes, shared pages in full; 0 for an unknown one."""
        ...


def read_quotas(path: Path) -> dict[str, int]:
    """Bytes by tenant; empty where there is no such file. UserError says what is wrong with it."""
    try:
        data = read_file(path, TEXT_NBYTES_MAX)
    except FileRefused as error:
        if error.errno == errno.ENOENT:
            return {}
        raise UserError(f"{path} {error.reason}") from error
    try:
        tables = tomllib.loads(data.decode())
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise UserError(f"{path}: {error}") from error
    return {name: _quota(path, name, table) for name, table in tables.items()}


def session_nbytes(layout: ModelLayout, tokens: int) -> int:
    """What a session of so many tokens takes on all volumes at most: extents, and a run for the partial unit."""
    return layout.kv_heads * layout.slot_nbytes * (extents(tokens, layout.extent_tokens) + 1)


def check_quota(tenant: str, quota: int | None, *, others: int, needed: int) -> None:
    """UserError where the tenant's other sessions and this one together would pass its quota."""
    if quota is not None and others + needed > quota:
        raise UserError(
            f"tenant {tenant!r} may have {human_bytes(quota)} of the volumes; its other sessions take "
            f"{human_bytes(others)} and this one would take up to {human_bytes(needed)}: remove sessions or raise "
            f"its quota in {FILE_NAME}"
        )


def require_room(store: Charged, folder: SessionFolder, tenant: str, tokens: int, *, session: str = "") -> None:
    """UserError where the tenant may not have a session of so many tokens beside those it has; `session` is the id of
    the one that grows to it, if it is not new. Called before anything of it is written."""
    quota = read_quotas(folder.path / FILE_NAME).get(tenant)
    if quota is None:
        return
    headers = [entry.found.state.header for entry in folder.entries(tenant) if entry.found]
    names = [SEQUENCE_PREFIX + header.session for header in headers if header and header.session != session]
    others = sum(map(store.used_nbytes, names))
    check_quota(tenant, quota, others=others, needed=session_nbytes(store.layout, tokens))


def _quota(path: Path, name: str, table: object) -> int:
    if not isinstance(table, dict) or set(table) != {"quota"}:
        raise UserError(f"{path}: [{name}] is a table with quota = SIZE and nothing else")
    match = _SIZE.fullmatch(str(table["quota"]))
    if match is None or isinstance(table["quota"], bool):
        raise UserError(f'{path}: [{name}] quota = {table["quota"]!r}; a size such as 65536, "512M" or "4G"')
    return int(match[1]) * _UNITS[match[2]]
