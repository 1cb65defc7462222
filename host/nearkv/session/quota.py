# SPDX-License-Identifier: Apache-2.0
"""How much of the volumes each tenant may have: `tenants.toml` in the sessions folder, read and held against. Pure but
for the reading.

    [NAME]
    quota = "512M"

A tenant that the file does not name, or where there is no file, has no limit of its own. Shared pages count for each
session that has them.
"""

from __future__ import annotations

import errno
import re
import tomllib
from pathlib import Path

from nearkv_driver.bounded_file import TEXT_NBYTES_MAX, FileRefused, read_file

from nearkv.errors import UserError
from nearkv.layout import ModelLayout
from nearkv.pages import extents
from nearkv.report import human_bytes

FILE_NAME = "tenants.toml"
_SIZE = re.compile(r"([0-9]{1,15})([KMGT]?)")
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


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
            f"{human_bytes(others)} and this one with this turn up to {human_bytes(needed)}: remove sessions or raise "
            f"its quota in {FILE_NAME}"
        )


def _quota(path: Path, name: str, table: object) -> int:
    if not isinstance(table, dict) or set(table) != {"quota"}:
        raise UserError(f"{path}: [{name}] is a table with quota = SIZE and nothing else")
    match = _SIZE.fullmatch(str(table["quota"]))
    if match is None or isinstance(table["quota"], bool):
        raise UserError(f'{path}: [{name}] quota = {table["quota"]!r}; a size such as 65536, "512M" or "4G"')
    return int(match[1]) * _UNITS[match[2]]
