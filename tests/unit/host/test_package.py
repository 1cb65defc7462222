# SPDX-License-Identifier: Apache-2.0
"""What the package offers where torch is not installed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import cli

# None in sys.modules is what import finds of a package that is not there. The other one is not needed before.
_WITHOUT = """
import sys
from types import ModuleType
sys.modules["torch"], sys.modules["transformers"] = ModuleType("torch"), ModuleType("transformers")
sys.modules[{name!r}] = None
from nearkv import NearStorageCache
"""


@pytest.mark.parametrize("name", ["torch", "transformers"])
def test_the_cache_says_what_it_needs(tmp_path: Path, name: str) -> None:
    line = [sys.executable, "-c", _WITHOUT.format(name=name)]
    done = subprocess.run(line, env=cli.environment(tmp_path), capture_output=True, text=True, timeout=60, check=False)
    said = f"NearStorageCache needs {name}, which is not installed: pip install 'nearkv[torch]'"
    assert (done.returncode, done.stderr.splitlines()[-1]) == (1, f"ModuleNotFoundError: {said}")
