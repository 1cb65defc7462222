# SPDX-License-Identifier: Apache-2.0
"""`nearkv xrt-emulate` as people run it: statuses that are passed on, and what it says where it cannot run."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.support import cli
from tests.support.xrt import installation

# A machine without XRT, whatever the one at hand has.
_NO_XRT = "import nearkv_emulation.xrt_run.installation as i; i.system_folders = lambda: ()"
_PRINT = 'printf "%s " "$XCL_EMULATION_MODE"; head -c 7 "$NEARKV_XCLBIN"; exit 7'


def test_without_xrt_it_says_what_to_install(tmp_path: Path) -> None:
    command = cli.command("xrt-emulate", "--", "true", prelude=_NO_XRT)
    done = cli.run_command(tmp_path, command)
    assert done.returncode == 3
    (line,) = done.stderr.splitlines()
    assert line.startswith("nearkv: error: XRT's emulation library libxrt_hwemu.so.2 is in none of ")
    assert "apt-get install libxrt1" in line


@pytest.mark.parametrize("mode", ["--attach", "--launch"])
def test_the_status_of_the_program_is_passed_on(tmp_path: Path, mode: str) -> None:
    installation()
    done = cli.run(tmp_path, "xrt-emulate", "--kernel", "model", mode, "--", "sh", "-c", _PRINT)
    assert (done.returncode, done.stdout, done.stderr) == (7, "hw_emu xclbin2", "")


def test_a_kept_folder_is_named(tmp_path: Path) -> None:
    installation()
    done = cli.run(tmp_path, "xrt-emulate", "--kernel", "model", "--keep", "true")
    assert done.returncode == 0
    folder = Path(done.stderr.removeprefix("nearkv: the run's folder is ").strip())
    assert (folder / "xrt.ini").is_file()
    shutil.rmtree(folder)


def test_options_of_the_program_need_no_dashes_before_it(tmp_path: Path) -> None:
    installation()
    done = cli.run(tmp_path, "xrt-emulate", "--kernel", "model", "echo", "--kernel", "--help")
    assert (done.returncode, done.stdout) == (0, "--kernel --help\n")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--kernel", "gpu", "true"], "kernel 'gpu'; allowed are hls, model, rtl"),
        (["--devices", "99", "true"], "devices 99; 1 to 16 are possible"),
        (["--kernel", "model", "--xclbin", "missing", "true"], "missing: cannot be read: No such file or directory"),
        (["--kernel", "model", "no-such-program"], "no-such-program: No such file or directory"),
        ([], "Missing argument 'COMMAND'"),
    ],
)
def test_what_cannot_be_run_is_refused_in_one_line(tmp_path: Path, arguments: list[str], sentence: str) -> None:
    installation()
    done = cli.run(tmp_path, "xrt-emulate", *arguments)
    assert done.returncode == 2
    assert sentence in done.stderr
    assert done.stderr.count("\n") == 1
