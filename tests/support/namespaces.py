# SPDX-License-Identifier: Apache-2.0
"""Python programs with mounts of their own: in a user and a mount namespace, so that nobody has to be root."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.cli import ROOT


def run_with_mounts(folder: Path, mounts: str, program: str) -> str:
    """Output of `program`, whose first argument is `folder`, after the shell commands `mounts`, which know it as "$0".

    Skips where this machine lets nobody mount; fails with the program's errors.
    """
    probe = ["unshare", "-rm", "mount", "-t", "tmpfs", "tmpfs", str(folder)]
    probed = subprocess.run(probe, capture_output=True, text=True, check=False)
    if probed.returncode:
        pytest.skip(f"no user namespace with a tmpfs here (unshare -rm): {probed.stderr.strip()}")
    ran = subprocess.run(
        ["unshare", "-rm", "sh", "-c", f'{mounts} && exec "$1" -c "$2" "$0"', str(folder), sys.executable, program],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout
