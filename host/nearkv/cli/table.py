# SPDX-License-Identifier: Apache-2.0
"""rich tables from rows; text is shown as it is, never read as markup."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich import box
from rich.table import Table
from rich.text import Text

from nearkv.report import Row


def two_columns(rows: Iterable[Row]) -> Table:
    """A table of name and value."""
    table = _table()
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for row in rows:
        table.add_row(Text(row.name), Text(row.value))
    return table


def columns(titles: Sequence[str], lines: Iterable[Sequence[str]]) -> Table:
    """A table with a title above each column."""
    table = _table(header=True)
    for title in titles:
        table.add_column(title, overflow="fold")
    for line in lines:
        table.add_row(*(Text(cell) for cell in line))
    return table


def _table(header: bool = False) -> Table:
    return Table(box=box.ROUNDED, show_header=header)
