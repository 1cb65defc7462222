# SPDX-License-Identifier: Apache-2.0
"""Building nearkv's binding of XRT: where headers are looked for, and what is said when something is missing."""

from __future__ import annotations

from pathlib import Path

import pytest
from nearkv_driver.compile import BuildError, Compiler
from nearkv_driver.xrt import native_build
from nearkv_driver.xrt.native_build import build_binding, find_headers
from nearkv_driver.xrt.places import Places


@pytest.fixture
def nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Places:
    monkeypatch.setattr("nearkv_driver.xrt.places._DEBIAN", ())
    monkeypatch.setattr("nearkv_driver.xrt.places._AMD", tmp_path / "amd")
    return Places(root=str(tmp_path / "xrt"))


def test_without_headers_it_says_where_it_looked(nowhere: Places, tmp_path: Path) -> None:
    with pytest.raises(BuildError) as caught:
        find_headers(nowhere)
    assert f"{tmp_path / 'xrt' / 'include'}, {tmp_path / 'xrt' / 'include' / 'xrt'}" in str(caught.value)
    assert "libxrt-dev uuid-dev" in caught.value.remedy


@pytest.mark.parametrize("below", ["include", "include/xrt"])
def test_the_users_own_xrt_comes_first(nowhere: Places, below: str, tmp_path: Path) -> None:
    folder = tmp_path / "xrt" / below
    (folder / "xrt").mkdir(parents=True)
    (folder / "xrt" / "xrt_device.h").write_text("")
    found = find_headers(nowhere)
    assert (found.folder, found.libraries) == (folder, tmp_path / "xrt" / "lib")


def test_a_compiler_that_fails_is_shown(nowhere: Places, tmp_path: Path) -> None:
    folder = tmp_path / "xrt" / "include"
    (folder / "xrt").mkdir(parents=True)
    (folder / "xrt" / "xrt_device.h").write_text("")
    with pytest.raises(BuildError, match=r"exit status 1:\n(.|\n)*nearkv_xrt\.cpp"):
        build_binding(nowhere, tmp_path / "cache")
    with pytest.raises(BuildError, match="no-such-compiler not found"):
        build_binding(nowhere, tmp_path / "cache", Compiler("no-such-compiler"))


def test_another_version_of_xrt_is_another_library(nowhere: Places, tmp_path: Path) -> None:
    """A stand-in for the compiler: what matters is what the library is named after."""
    folder = tmp_path / "xrt" / "include"
    (folder / "xrt").mkdir(parents=True)
    (folder / "xrt" / "xrt_device.h").write_text("")
    compiler = tmp_path / "cc"
    compiler.write_text('#!/bin/sh\nfor last; do :; done\n[ "$last" = /dev/null ] || : > "$last"\n')
    compiler.chmod(0o755)
    names = set()
    for version in ("2.13.0", "2.14.0", "2.14.0"):
        (folder / "version.h").write_text(f'"{version}"\n')
        names.add(build_binding(nowhere, tmp_path / "cache", Compiler(str(compiler))).name)
    assert len(names) == 2
    assert native_build.SOURCE.is_file()
