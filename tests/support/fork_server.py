# SPDX-License-Identifier: Apache-2.0
"""Runs `nearkv` many times without importing torch each time: every run is a fork of a process that has it loaded.

`python -m tests.support.fork_server` reads a JSON list per line, the file for the output and then the arguments of the
command, and answers with the process id, then with the exit status (negative: the signal). One run at a time.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.support.cli import ROOT, environment


class ForkServer:
    """The side that asks. A context manager."""

    def __init__(self, temporary: Path) -> None:
        paths = environment(temporary)
        paths["PYTHONPATH"] += os.pathsep + str(ROOT)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.fork_server"],
            env=paths,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            encoding="utf-8",
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(60)

    def start(self, output: Path, arguments: Sequence[str]) -> int:
        """The process id of a run that has begun."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps([str(output), *arguments]) + "\n")
        self._process.stdin.flush()
        return self._line()

    def wait(self) -> int:
        """Exit status of the run."""
        return self._line()

    def run(self, output: Path, arguments: Sequence[str]) -> int:
        self.start(output, arguments)
        return self.wait()

    def _line(self) -> int:
        assert self._process.stdout is not None
        return int(self._process.stdout.readline())


def _serve() -> None:
    import torch
    from nearkv.cli import main

    torch.set_num_threads(1)
    for line in sys.stdin:
        output, *arguments = json.loads(line)
        pid = os.fork()
        if pid == 0:
            fd = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            null = os.open(os.devnull, os.O_RDONLY)
            for source, target in ((null, 0), (fd, 1), (fd, 2)):
                os.dup2(source, target)
            sys.argv = ["nearkv", *arguments]
            try:
                code = main()
            except SystemExit as ended:
                code = ended.code if isinstance(ended.code, int) else 1
            sys.stdout.flush()
            os._exit(code or 0)
        sys.stdout.write(f"{pid}\n")
        sys.stdout.flush()
        _, status = os.waitpid(pid, 0)
        sys.stdout.write(f"{os.waitstatus_to_exitcode(status)}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    _serve()
