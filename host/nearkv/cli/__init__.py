# SPDX-License-Identifier: Apache-2.0
"""The command `nearkv`. Options and output only: the work is in `generate`, `doctor` and `report`.

A command parses its options into something to run; `main` runs it and turns what can go wrong into one line on stderr
and an exit code: 1 a check of `doctor` failed, 2 bad input, 3 trouble with a card, its storage or the output,
130 Ctrl-C, 141 nobody reads the output any more, 143 asked to end.
"""

from __future__ import annotations

from collections.abc import Sequence

from nearkv.cli.exit_codes import INTERRUPTED

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command (`sys.argv` unless given); returns the exit code."""
    try:
        # Not above: it takes half a second, in which Ctrl-C ends the program without a traceback too.
        from nearkv.cli.entry import main as run
    except KeyboardInterrupt:
        return INTERRUPTED
    return run(arguments)
