# SPDX-License-Identifier: Apache-2.0
"""Finding XRT: places, versions, the package with the broken buffer, and what is said where there is none."""

from __future__ import annotations

from pathlib import Path

import pytest
from nearkv_driver.errors import TransportUnavailable
from nearkv_emulation.xrt_run.installation import find_installation

BROKEN, MENDED = "202210.2.13.466+dfsg-8.2", "202420.2.18.0-1"


def shim(folder: Path, version: str = "2.13.0") -> Path:
    folder.mkdir(parents=True)
    (folder / f"libxrt_hwemu.so.{version}").touch()
    (folder / "libxrt_hwemu.so.2").symlink_to(f"libxrt_hwemu.so.{version}")
    return folder


@pytest.mark.parametrize(("package", "pads"), [(BROKEN, True), (MENDED, False), ("", False)])
def test_the_package_of_the_system_decides_about_padding(tmp_path: Path, package: str, pads: bool) -> None:
    folder = shim(tmp_path / "lib")
    found = find_installation({}, [tmp_path / "missing", folder], lambda: package)
    assert (found.libraries, found.version, found.root, found.pad_messages) == (folder, (2, 13), None, pads)


def test_a_set_xrt_goes_first_and_is_used_as_it_is(tmp_path: Path) -> None:
    system, own = shim(tmp_path / "lib"), tmp_path / "xrt"
    shim(own / "lib", "2.16.204")
    found = find_installation({"XILINX_XRT": str(own)}, [system], lambda: BROKEN)
    assert (found.libraries, found.version, found.root, found.pad_messages) == (own / "lib", (2, 16), own, False)


def test_a_set_xrt_without_emulation_is_passed_over(tmp_path: Path) -> None:
    folder = shim(tmp_path / "lib")
    found = find_installation({"XILINX_XRT": str(tmp_path / "xrt")}, [folder], lambda: BROKEN)
    assert (found.libraries, found.root) == (folder, None)


def test_where_there_is_none_the_fix_is_said(tmp_path: Path) -> None:
    with pytest.raises(
        TransportUnavailable, match=r"libxrt_hwemu\.so\.2 is in none of .*missing; .*apt-get install libxrt1"
    ):
        find_installation({}, [tmp_path / "missing"], lambda: "")


@pytest.mark.parametrize(
    ("version", "uid", "refused"), [("2.25.0", 0, True), ("2.25.0", 1000, False), ("2.13.0", 0, False)]
)
def test_versions_that_take_no_settings_from_root_are_refused_there(
    tmp_path: Path, version: str, uid: int, refused: bool
) -> None:
    folder = shim(tmp_path / "lib", version)
    if refused:
        with pytest.raises(TransportUnavailable, match=r"XRT 2\.25 takes no emulation settings .* ordinary user"):
            find_installation({}, [folder], lambda: "", uid)
    else:
        find_installation({}, [folder], lambda: "", uid)
