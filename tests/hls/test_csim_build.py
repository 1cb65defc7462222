# SPDX-License-Identifier: Apache-2.0
"""Building the kernel: cached by what goes in, safe for several builders, and clear about what is missing."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from nearkv_driver import compile as compile_module
from nearkv_emulation import build as builder
from nearkv_emulation.build import BuildError, Compiler, Variant, build, hls_folder

TINY = 'extern "C" int answer() { return 42; }\n'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An HLS folder with one small source."""
    for name in ("include", "csim_include", "src"):
        (tmp_path / "hls" / name).mkdir(parents=True)
    (tmp_path / "hls" / "src" / "tiny.cpp").write_text(TINY)
    return tmp_path / "hls"


def build_tiny(folder: Path, cache: Path, *options: str) -> Path:
    return build("tiny", folder, [folder / "src" / "tiny.cpp"], options, cache)


def test_second_build_is_the_first_one(folder: Path, tmp_path: Path) -> None:
    first = build_tiny(folder, tmp_path / "cache")
    stamp = first.stat().st_mtime_ns
    assert build_tiny(folder, tmp_path / "cache") == first
    assert first.stat().st_mtime_ns == stamp


def test_edit_and_option_make_another_library(folder: Path, tmp_path: Path) -> None:
    libraries = {build_tiny(folder, tmp_path / "cache")}
    libraries.add(build_tiny(folder, tmp_path / "cache", "-O1"))
    (folder / "include" / "new.hpp").write_text("// unused\n")
    libraries.add(build_tiny(folder, tmp_path / "cache"))
    assert len(libraries) == 3


def test_missing_compiler_is_named_with_the_remedy(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(BuildError, match=r"no-such-g\+\+ not found.*apt-get install g\+\+"):
        build("tiny", folder, [], (), tmp_path / "cache", Compiler("no-such-g++"))


def test_compiler_error_is_shown_and_leaves_nothing(folder: Path, tmp_path: Path) -> None:
    (folder / "src" / "tiny.cpp").write_text("this is not C++\n")
    with pytest.raises(BuildError, match=r"exit status 1:\n(.|\n)*tiny\.cpp"):
        build_tiny(folder, tmp_path / "cache")
    assert not list((tmp_path / "cache").glob("*.so"))


def test_cache_that_is_a_file_is_named(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("")
    with pytest.raises(BuildError, match=f"cannot write the compiled tiny to {tmp_path / 'cache'}"):
        build_tiny(folder, tmp_path / "cache")


def test_several_processes_build_once(folder: Path, tmp_path: Path) -> None:
    """A compiler that counts its compilations, four processes that start together."""
    wrapper, count = tmp_path / "counting-g++", tmp_path / "count"
    # Probes of the compiler end in /dev/null, compilations do not.
    wrapper.write_text(
        f'#!/bin/sh\nfor last; do :; done\n[ "$last" = /dev/null ] || echo x >> {count}\nexec g++ "$@"\n'
    )
    wrapper.chmod(0o755)
    code = (
        "import sys; from pathlib import Path; from nearkv_emulation.build import Compiler, build\n"
        "folder, cache, wrapper = map(Path, sys.argv[1:])\n"
        "print(build('tiny', folder, [folder / 'src' / 'tiny.cpp'], (), cache, Compiler(str(wrapper))))\n"
    )
    command = [sys.executable, "-c", code, str(folder), str(tmp_path / "cache"), str(wrapper)]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    found = {process.communicate(timeout=60)[0].strip() for process in running}
    assert [process.returncode for process in running] == [0] * 4
    assert len(found) == 1
    assert Path(found.pop()).is_file()
    assert count.read_text().split() == ["x"]


@pytest.mark.parametrize("variant", list(Variant), ids=lambda v: v.name)
def test_kernel_compiles_without_warnings(variant: Variant, tmp_path: Path) -> None:
    """And the smoke test of the Vitis scripts passes with the port bodies that synthesis sees."""
    folder = hls_folder()
    sources = [folder / "src" / "nearkv_attend.cpp", folder / "tb" / "nearkv_attend_tb.cpp"]
    includes = [f"-I{folder / name}" for name in ("include", "csim_include")]
    flags = [*builder.WARNINGS, "-Werror", *variant.value]
    program = tmp_path / "smoke"
    command = [Compiler().path(), "-std=c++17", *flags, *includes, *map(str, sources), "-o", str(program)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=250)
    assert done.returncode == 0, done.stderr
    run = subprocess.run([str(program)], capture_output=True, text=True, timeout=60)
    assert (run.returncode, run.stdout) == (0, "pass\n")


def test_sources_lie_beside_the_package_in_a_wheel(tmp_path: Path) -> None:
    """A copy of the package with `_hls` beside it, as the wheel lays it out, finds its own sources."""
    package = tmp_path / "nearkv_emulation"
    shutil.copytree(Path(builder.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(hls_folder(), package / "_hls")
    driver = str(Path(str(compile_module.__file__)).parents[1])
    code = "from nearkv_emulation.build import hls_folder; print(hls_folder())"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": os.pathsep.join((str(tmp_path), driver))},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stdout.strip() == str(package / "_hls"), done.stderr
