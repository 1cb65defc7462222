# SPDX-License-Identifier: Apache-2.0
"""The private folder of one run: all files that XRT's emulation reads, and the environment that leads it there.

The shim puts its sockets into /tmp/$USER, so the folder lies in /tmp and USER is its name. Starts nothing.
"""

from __future__ import annotations

import fcntl
import json
import os
import shlex
import shutil
import socket
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from nearkv_driver.errors import TransportUnavailable
from nearkv_driver.xclbin import Design

from nearkv_emulation.xrt_run.installation import Installation

_TMP = Path("/tmp")  # the shim takes no other
_SHM = Path("/dev/shm")  # memory that is no disk's
_PREFIX = "nearkv-xrt-"
_SOCKET, _KEPT = "attached", "kept"
# The padded first message makes the shim's buffer, which must then never grow: larger than a packet and what is
# around it.
_PACKET_NBYTES, _PAD_NBYTES = 65536, 80000


@dataclass(frozen=True)
class RunFolder:
    """Paths of one run; everything below `path` and `shared` goes at its end."""

    path: Path
    shared: Path | None

    @property
    def meeting(self) -> Path:
        """Attach mode: where the device listens."""
        return self.path / _SOCKET

    @property
    def reports(self) -> Path:
        return self.path / "reports"

    @property
    def log(self) -> Path:
        """What device processes say."""
        return self.path / "device.log"

    @property
    def places(self) -> tuple[Path, ...]:
        """Where files of P2P buffers may lie."""
        own = self.path / "p2p"
        return (own,) if self.shared is None else (self.shared, own)

    def device_command(self, xclbin: Path, kernel: str, models: Sequence[str]) -> list[str]:
        """A device process; how it meets the host and where it reports comes on top."""
        command = [sys.executable, "-m", "nearkv_emulation.xrt_device", "--xclbin", str(xclbin), "--kernel", kernel]
        command += [part for model in models for part in ("--model", model)]
        return command + [part for place in self.places for part in ("--p2p-folder", str(place))]

    def listener(self) -> socket.socket:
        """Attach mode: a socket that hosts can connect to before the device process is ready."""
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind(str(self.meeting))
        listener.listen()
        return listener


class RunFolders:
    """Makes a RunFolder and removes it; also those of runs that were killed. A context manager."""

    def __init__(self, keep: bool = False) -> None:
        self._keep = keep
        self._folder: RunFolder | None = None
        self._lock = -1

    def __enter__(self) -> RunFolder:
        sweep()
        try:
            path, self._lock = _make()
        except OSError as error:
            raise TransportUnavailable(
                f"no folder can be made in {_TMP}, where XRT's emulation wants its sockets: {error.strerror}"
            ) from error
        try:
            return self._fill(path)
        except OSError as error:
            self.__exit__()
            raise TransportUnavailable(f"{error.filename}: {error.strerror}") from error

    def _fill(self, path: Path) -> RunFolder:
        shared = _SHM / path.name
        try:
            shared.mkdir(mode=0o700)
            self._folder = RunFolder(path, shared)
        except OSError:  # not every machine has this folder, and the other one serves as well
            self._folder = RunFolder(path, None)
        for part in (self._folder.reports, path / "p2p", path / "runs"):
            part.mkdir()
        return self._folder

    def __exit__(self, *_: object) -> None:
        if self._folder is not None:
            if self._folder.shared is not None:
                shutil.rmtree(self._folder.shared, ignore_errors=True)
            if self._keep:
                (self._folder.path / _KEPT).touch()
            else:
                shutil.rmtree(self._folder.path, ignore_errors=True)
        os.close(self._lock)


def _make() -> tuple[Path, int]:
    """A new folder and its lock. Another run that sweeps may take a folder in the moment when nobody holds its lock:
    then it is gone, and a further one is made."""
    while True:
        path = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=_TMP))
        lock = -1
        try:
            lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            fcntl.flock(lock, fcntl.LOCK_EX)
            if os.path.samestat(os.fstat(lock), os.stat(path)):
                return path, lock
        except FileNotFoundError:
            pass
        if lock >= 0:
            os.close(lock)


def sweep() -> None:
    """Removes what killed runs of this user left: folders whose lock nobody holds."""
    for path in _TMP.glob(f"{_PREFIX}*"):
        try:
            if path.lstat().st_uid != os.getuid() or path.is_symlink() or (path / _KEPT).exists():
                continue
            fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            continue
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(_SHM / path.name, ignore_errors=True)
            shutil.rmtree(path, ignore_errors=True)
        except BlockingIOError:
            pass
        finally:
            os.close(fd)


def prepare(
    folder: RunFolder,
    installation: Installation,
    design: Design,
    devices: int,
    launch: Sequence[str] | None,
    settings: Sequence[str] = (),
) -> None:
    """Writes the files. `launch`: the command of a device process in launch mode, None in attach mode; `settings`:
    further lines of the section [Emulation]."""
    _write_root(folder, installation)
    _write_boards(folder, design, devices)
    emulation = ["system_dpa=false", "print_infos_in_console=false", *settings]
    if launch is None:
        emulation.append("dont_run=true")
    else:
        emulation.append(f"sim_dir={_write_launcher(folder, launch)}")
    debug = []
    if installation.pad_messages:
        emulation.append(f"packet_size={_PACKET_NBYTES}")
        debug = ["[Debug]", f"pad={'x' * _PAD_NBYTES}"]
    (folder.path / "xrt.ini").write_text("\n".join(["[Emulation]", *emulation, *debug, ""]))


def environment(
    folder: RunFolder, installation: Installation, base: Mapping[str, str], xclbin: Path, preload: Path, attach: bool
) -> dict[str, str]:
    """Variables of the host program. NEARKV_XCLBIN is for its own use: the file whose design the devices have."""
    found = dict(base)
    found |= {
        "XCL_EMULATION_MODE": "hw_emu",
        "XILINX_XRT": str(installation.root or folder.path / "xrt"),
        "XRT_INI_PATH": str(folder.path / "xrt.ini"),
        "EMCONFIG_PATH": str(folder.path),
        "SDACCEL_EM_RUN_DIR": str(folder.path / "runs"),
        "USER": folder.path.name,
        "LD_PRELOAD": " ".join(filter(None, (str(_plain(folder, preload)), base.get("LD_PRELOAD", "")))),
        "NEARKV_XCLBIN": str(xclbin),
    }
    found.setdefault("XILINX_VITIS", str(folder.path))  # later versions want it set, to anything
    found.pop("EMULATION_SOCKETID", None)
    if attach:
        found["EMULATION_SOCKETID"] = _SOCKET
    return found


def _plain(folder: RunFolder, preload: Path) -> Path:
    """The loader takes blanks and colons for the ends of names, so the library gets a name that has none."""
    link = folder.path / "preload.so"
    link.unlink(missing_ok=True)
    link.symlink_to(preload.absolute())
    return link


def _write_root(folder: RunFolder, installation: Installation) -> None:
    """What XILINX_XRT points to: the library folder of a Linux distribution is no such folder."""
    root = folder.path / "xrt"
    root.mkdir()
    (root / "lib").symlink_to(installation.libraries)
    (root / "bin").symlink_to("/usr/bin")
    (root / "include").symlink_to("/usr/include/xrt")
    (root / "version.json").write_text(json.dumps({"BUILD_VERSION": f"{installation.version_text}.0"}))


def _write_boards(folder: RunFolder, design: Design, devices: int) -> None:
    """emconfig.json; names of keys are XRT's, the misspelt one among them."""
    clock = str(max((clock.mhz for clock in design.clocks if clock.type == 1), default=300))
    banks = [{"Size": f"{max(1, bank.nbytes >> 30)}G"} for bank in design.banks if bank.used]
    device = {"Name": design.platform, "OclFreqency": clock, "NumDevices": str(devices), "DdrBanks": banks}
    document = {"Version": {"FileVersion": "2.0"}, "Platform": {"Boards": [{"NumBoards": "1", "Devices": [device]}]}}
    (folder.path / "emconfig.json").write_text(json.dumps(document))


def _write_launcher(folder: RunFolder, command: Sequence[str]) -> Path:
    """The folder with `simulate.sh`, which the shim starts once per device that is opened. `exec`: the shim waits for
    the process that it forked."""
    simulation = folder.path / "simulation"
    simulation.mkdir()
    script = simulation / "simulate.sh"
    line = " ".join(map(shlex.quote, command))
    script.write_text(
        "#!/bin/sh\n"
        f"unset LD_PRELOAD\nPYTHONPATH={shlex.quote(python_path())}; export PYTHONPATH\n"
        f'exec {line} --connect "/tmp/$USER/$EMULATION_SOCKETID" '
        f'--report {shlex.quote(str(folder.reports))}/"$EMULATION_SOCKETID".json 2>>{shlex.quote(str(folder.log))}\n'
    )
    script.chmod(0o755)
    return simulation


def python_path() -> str:
    """Where this process finds modules, so that a device process finds the same ones."""
    return os.pathsep.join(str(Path(entry or ".").resolve()) for entry in sys.path if Path(entry or ".").exists())
