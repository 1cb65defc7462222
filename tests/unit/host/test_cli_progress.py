# SPDX-License-Identifier: Apache-2.0
"""On a terminal the bar shows stages and layers and goes away; elsewhere nothing is written."""

from __future__ import annotations

import io

from nearkv.cli.progress import Progress
from rich.console import Console


def shown(*, terminal: bool) -> str:
    out = io.StringIO()
    console = Console(file=out, force_terminal=terminal, width=100)
    with Progress(console) as progress:
        progress.stage("loading [a] model")
        progress.refresh()
        progress.prefill(3, 30)
        progress.refresh()
        progress.stop()
        progress.stop()
    return out.getvalue()


def test_stages_and_layers_show_on_a_terminal() -> None:
    text = shown(terminal=True)
    assert "loading [a] model" in text
    assert "prefill, layers" in text
    assert "3/30" in text
    assert text.endswith("\x1b[2K") or "\x1b[2K" in text  # the line is cleared at the end


def test_nothing_is_written_elsewhere() -> None:
    assert shown(terminal=False) == ""
