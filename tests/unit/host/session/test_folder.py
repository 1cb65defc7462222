# SPDX-License-Identifier: Apache-2.0
"""Salts of tenants: private, lasting, different, and refused when they are not whole."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
from nearkv.session.folder import SessionFolder
from nearkv.volume_errors import VolumeDamaged


def test_a_salt_lasts_and_is_its_tenants_alone(tmp_path: Path) -> None:
    salt = SessionFolder(tmp_path).salt("a")
    assert SessionFolder(tmp_path).salt("a") == salt
    assert SessionFolder(tmp_path).salt("b") != salt
    assert len(salt) == 32
    assert {stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "sessions").iterdir()} == {0o600}


@pytest.mark.parametrize("nbytes", [0, 31, 33])
def test_a_salt_of_another_size_is_refused(tmp_path: Path, nbytes: int) -> None:
    SessionFolder(tmp_path).salt("a")
    (path,) = (tmp_path / "sessions").iterdir()
    path.write_bytes(bytes(nbytes))
    with pytest.raises(VolumeDamaged, match=f"has {nbytes} bytes, not 32"):
        SessionFolder(tmp_path).salt("a")
