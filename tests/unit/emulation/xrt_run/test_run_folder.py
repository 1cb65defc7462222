# SPDX-License-Identifier: Apache-2.0
"""The folder of a run: what is in it, the environment that leads there, and that it goes."""

from __future__ import annotations

import configparser
import fcntl
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from nearkv_emulation.xrt_run import run_folder
from nearkv_emulation.xrt_run.design import default_design
from nearkv_emulation.xrt_run.emulate import Options
from nearkv_emulation.xrt_run.installation import Installation
from nearkv_emulation.xrt_run.run_folder import RunFolders, environment, prepare, sweep

XRT = Installation(Path("/lib/xrt"), (2, 13), None, True)


def settings(folder: Path) -> dict[str, dict[str, str]]:
    parser = configparser.ConfigParser()
    parser.read(folder / "xrt.ini")
    return {name: dict(parser[name]) for name in parser.sections()}


def test_attach_mode(tmp_path: Path) -> None:
    with RunFolders() as folder:
        prepare(folder, XRT, default_design(), 1, None)
        variables = environment(
            folder, XRT, {"LD_PRELOAD": "/theirs.so"}, Path("/x.xclbin"), Path("/our own:one.so"), True
        )
        found = settings(folder.path)
        assert found["Emulation"] == {
            "system_dpa": "false",
            "print_infos_in_console": "false",
            "dont_run": "true",
            "packet_size": "65536",
        }
        # The first message must be the largest one: it sizes the shim's buffer.
        assert len(found["Debug"]["pad"]) > 65536 + 4096
        boards = json.loads((folder.path / "emconfig.json").read_text())
        (device,) = boards["Platform"]["Boards"][0]["Devices"]
        assert (device["Name"], device["NumDevices"]) == ("xilinx_u2_gen3x4_xdma_gc_2_202110_1", "1")
        assert os.readlink(folder.path / "xrt/lib") == "/lib/xrt"
        assert json.loads((folder.path / "xrt/version.json").read_text()) == {"BUILD_VERSION": "2.13.0"}
        assert variables["USER"] == folder.path.name
        assert folder.meeting == Path("/tmp", variables["USER"], variables["EMULATION_SOCKETID"])
        ours, theirs = variables["LD_PRELOAD"].split(" ")
        assert (os.readlink(ours), theirs) == ("/our own:one.so", "/theirs.so")
        assert ":" not in ours
        assert variables["NEARKV_XCLBIN"] == "/x.xclbin"
        assert len(str(folder.meeting)) + len("D2X_unix_sock_") < 100  # a socket's path has 107 bytes
    assert not folder.path.exists()


def test_launch_mode(tmp_path: Path) -> None:
    mended = Installation(Path("/lib/xrt"), (2, 16), Path("/opt/xrt"))
    with RunFolders() as folder:
        prepare(folder, mended, default_design(), 3, ["device", "it's one"])
        variables = environment(folder, mended, {"EMULATION_SOCKETID": "old"}, Path("/x"), Path("/ours.so"), False)
        found = settings(folder.path)
        script = Path(found["Emulation"]["sim_dir"], "simulate.sh")
        assert os.access(script, os.X_OK)
        assert "exec device 'it'\"'\"'s one' --connect" in script.read_text()
        subprocess.run(["sh", "-n", str(script)], check=True)
        assert "dont_run" not in found["Emulation"]
        assert "Debug" not in found
        assert "EMULATION_SOCKETID" not in variables
        assert variables["XILINX_XRT"] == "/opt/xrt"


def test_what_a_killed_run_left_is_swept_and_what_lives_or_was_kept_is_not() -> None:
    code = (
        "import os, signal, sys\n"
        "from nearkv_emulation.xrt_run.run_folder import RunFolders\n"
        "folder = RunFolders().__enter__()\n"
        "print(folder.path, folder.shared, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    killed = [Path(part) for part in done.stdout.split() if part != "None"]
    assert killed
    assert all(path.is_dir() for path in killed)
    with RunFolders(keep=True) as kept, RunFolders() as living:
        sweep()
        assert not any(path.exists() for path in killed)
        assert living.path.is_dir()
    sweep()
    assert kept.path.is_dir()
    (kept.path / "kept").unlink()
    sweep()
    assert not kept.path.exists()


@pytest.mark.parametrize("before", ["open", "lock"])
def test_a_folder_that_another_run_sweeps_before_it_is_locked_is_made_again(
    monkeypatch: pytest.MonkeyPatch, before: str
) -> None:
    made: list[Path] = []
    real_open, real_lock = os.open, fcntl.flock

    def disturbed(moment: str) -> None:
        if moment == before and len(made) == 1:
            made.append(made[0])
            shutil.rmtree(made[0])

    def make(prefix: str, dir: Path) -> str:
        made.append(Path(mkdtemp(prefix=prefix, dir=dir)))
        return str(made[-1])

    def opened(path: str | Path, *rest: int, **named: int | None) -> int:
        if made and Path(path) == made[0]:
            disturbed("open")
        return real_open(path, *rest, **named)  # type: ignore[arg-type]

    def locked(fd: int, how: int) -> None:
        if made and how == fcntl.LOCK_EX:
            disturbed("lock")
        real_lock(fd, how)

    mkdtemp = tempfile.mkdtemp
    monkeypatch.setattr(tempfile, "mkdtemp", make)
    monkeypatch.setattr(os, "open", opened)
    monkeypatch.setattr(fcntl, "flock", locked)
    with RunFolders() as folder:
        assert folder.path == made[-1] != made[0]
        assert folder.reports.is_dir()


def test_a_machine_without_shared_memory_does_with_the_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(run_folder, "_SHM", tmp_path / "missing")
    with RunFolders() as folder:
        assert folder.shared is None
        assert folder.places == (folder.path / "p2p",)
        assert folder.places[0].is_dir()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"kernel": "other"}, "kernel 'other'; allowed are hls, model, rtl"),
        ({"devices": 0}, "devices 0; 1 to 16 are possible"),
        ({"devices": 2, "attach": True}, "attach mode has one device, not 2"),
        ({"timeout_s": 0.0}, r"timeout 0\.0; it must be above 0"),
        ({"timeout_s": float("nan")}, r"timeout nan; it must be above 0"),
    ],
)
def test_options_that_mean_nothing_are_refused(options: dict[str, object], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        Options(**options)  # type: ignore[arg-type]
