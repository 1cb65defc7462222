# SPDX-License-Identifier: Apache-2.0
"""What the build of the Verilated kernel says of headers that are missing."""

from __future__ import annotations

from pathlib import Path

import pytest
from nearkv_emulation.build import Compiler
from nearkv_emulation.rtl_build import WAVE_HEADERS, ToolMissing, require_headers


@pytest.mark.parametrize("header", WAVE_HEADERS)
def test_a_missing_header_of_waveforms_is_named(tmp_path: Path, header: str) -> None:
    """A compiler that finds every header but this one."""
    compiler = tmp_path / "compiler"
    compiler.write_text(f"#!/bin/sh\n! grep -q '<{header}>'\n")
    compiler.chmod(0o755)
    with pytest.raises(ToolMissing, match=f"{header}; apt-get install {WAVE_HEADERS[header]}"):
        require_headers(Compiler(str(compiler)))


def test_headers_that_are_there_are_no_trouble(tmp_path: Path) -> None:
    compiler = tmp_path / "compiler"
    compiler.write_text("#!/bin/sh\ncat > /dev/null\n")
    compiler.chmod(0o755)
    require_headers(Compiler(str(compiler)))
