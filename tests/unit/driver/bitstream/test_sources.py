# SPDX-License-Identifier: Apache-2.0
"""Where the sources lie and which revision they are, in a clone and in an installed package."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from nearkv_driver.bitstream import sources
from nearkv_driver.bitstream.sources import Revision, find_sources

from tests.support.rtl_tools import needs

ROOT = Path(__file__).parents[4]
FILES = ("fpga/hls/src/a.cpp", "fpga/rtl/a.v", "fpga/rtl/vitis/kernel.xml", "docs/a.md")


def git(folder: Path, *arguments: str) -> str:
    line = ["git", "-C", str(folder), "-c", "user.name=n", "-c", "user.email=e@example.com", *arguments]
    return subprocess.run(line, capture_output=True, text=True, timeout=60, check=True).stdout.strip()


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "clone"
    for name in FILES:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    git(tmp_path, "init", "-q", str(folder))
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "first")
    monkeypatch.setattr(sources, "_REPOSITORY", folder)
    return folder


@needs("git")
def test_a_clean_clone_is_its_commit(clone: Path) -> None:
    revision = find_sources().revision
    assert (revision.commit, revision.dirty) == (git(clone, "rev-parse", "HEAD"), False)
    assert revision.label == git(clone, "rev-parse", "HEAD")[:12]
    assert revision.build_id == int(git(clone, "rev-parse", "HEAD")[:8], 16)


@needs("git")
@pytest.mark.parametrize("name", ["fpga/hls/src/a.cpp", "fpga/rtl/new.v"])
def test_a_changed_or_new_source_marks_it_dirty(clone: Path, name: str) -> None:
    before = find_sources().revision
    (clone / name).write_text("changed")
    revision = find_sources().revision
    assert (revision.commit, revision.dirty, revision.build_id) == (before.commit, True, 0)
    assert revision.label.endswith("-dirty")
    assert revision.digest != before.digest


@needs("git")
def test_what_is_not_built_marks_nothing(clone: Path) -> None:
    before = find_sources().revision
    (clone / "docs" / "a.md").write_text("changed")
    assert find_sources().revision == before


def test_without_a_clone_it_is_the_files(clone: Path) -> None:
    shutil.rmtree(clone / ".git")
    revision = find_sources().revision
    assert (revision.commit, revision.build_id) == (None, 0)
    assert revision.label == f"src{revision.digest[:12]}"


def test_a_clone_inside_another_one_is_not_taken_for_it(clone: Path) -> None:
    """A package installed below somebody's repository must not be named by that one's commit."""
    shutil.rmtree(clone / ".git")
    git(clone.parent, "init", "-q", ".")
    git(clone.parent, "add", ".")
    git(clone.parent, "commit", "-qm", "not ours")
    assert find_sources().revision.commit is None


def test_the_names_of_revisions() -> None:
    assert Revision("0123456789abcdef" * 2, False, "ff" * 32).label == "0123456789ab"
    assert Revision("0123456789abcdef" * 2, False, "ff" * 32).build_id == 0x01234567
    assert Revision("0123456789abcdef" * 2, True, "ff" * 32).label == "0123456789ab-dirty"


def test_an_installed_package_has_its_own_copy(tmp_path: Path) -> None:
    """Laid out as pyproject.toml's wheel is: the packages side by side, the sources inside one of them."""
    site = tmp_path / "site"
    shutil.copytree(ROOT / "driver" / "nearkv_driver", site / "nearkv_driver")
    shutil.copytree(ROOT / "fpga" / "hls", site / "nearkv_emulation" / "_hls")
    shutil.copytree(ROOT / "fpga" / "rtl", site / "nearkv_emulation" / "_rtl")
    (site / "nearkv_emulation" / "__init__.py").write_text("raise SystemExit('imported')\n")
    code = (
        "from pathlib import Path\n"
        "from nearkv_driver.bitstream import Flow, Request, Target, load_platforms, make_plan\n"
        "from nearkv_driver.bitstream.sources import find_sources\n"
        "sources = find_sources()\n"
        "request = Request(load_platforms()['u2'], Flow.RTL, Target.HW, Path('out'))\n"
        "print(sources.hls, sources.rtl, sources.revision.commit, make_plan(request, sources, None).name, sep='\\n')\n"
    )
    line = [sys.executable, "-I", "-c", f"import sys; sys.path.insert(0, {str(site)!r})\n{code}"]
    done = subprocess.run(line, capture_output=True, text=True, timeout=60, check=True)
    hls, rtl, commit, name = done.stdout.splitlines()
    assert (hls, rtl, commit) == (*(str(site / "nearkv_emulation" / part) for part in ("_hls", "_rtl")), "None")
    assert name.startswith("nearkv-u2-rtl-hw-1cu-300mhz-src")
