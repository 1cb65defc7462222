# SPDX-License-Identifier: Apache-2.0
"""What goes on before the first token, on a terminal: the stage, then a bar over the layers of prefill.

Where the output is no terminal nothing is written.
"""

from __future__ import annotations

from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bars


class Progress:
    """A context manager; `stop` takes the bar away and may be called again."""

    def __init__(self, console: Console) -> None:
        self._bars = Bars(
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._task = self._bars.add_task("starting", total=None)

    def stage(self, text: str) -> None:
        """Begins a stage of unknown length."""
        self._bars.reset(self._task, total=None, description=text)

    def prefill(self, layers: int, total: int) -> None:
        """`layers` of `total` layers of the prefill are done."""
        self._bars.update(self._task, description="prefill, layers", completed=layers, total=total)

    def amount(self, what: str, done: int, total: int) -> None:
        """`done` of `total` is done of what goes on."""
        self._bars.update(self._task, description=what, completed=done, total=total)

    def refresh(self) -> None:
        """Shows the state now; otherwise it is shown ten times a second."""
        self._bars.refresh()

    def stop(self) -> None:
        self._bars.stop()

    def __enter__(self) -> Progress:
        self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
