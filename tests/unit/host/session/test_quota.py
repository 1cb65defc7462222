# SPDX-License-Identifier: Apache-2.0
"""Tenants' quotas: what the file says, what is wrong with it, and when a turn is refused."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nearkv.errors import UserError
from nearkv.layout import ModelLayout
from nearkv.session.quota import check_quota, read_quotas, session_nbytes


def test_sizes_are_read(tmp_path: Path) -> None:
    path = tmp_path / "tenants.toml"
    assert read_quotas(path) == {}
    path.write_text('[a]\nquota = 65536\n["b c"]\nquota = "3M"\n[d]\nquota = "0"\n')
    assert read_quotas(path) == {"a": 65536, "b c": 3 << 20, "d": 0}


@pytest.mark.parametrize(
    "text",
    ["[a", "a = 1", "[a]\nquota = -1", '[a]\nquota = "1.5G"', "[a]\nquota = true", "[a]\nlimit = 1", "[a]", "\0"],
)
def test_what_is_no_quota_is_refused_with_the_file(tmp_path: Path, text: str) -> None:
    path = tmp_path / "tenants.toml"
    path.write_text(text)
    with pytest.raises(UserError, match=r"tenants\.toml"):
        read_quotas(path)


@given(st.binary(max_size=50))
def test_any_file_is_read_or_refused(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "any.toml"
    path.write_bytes(data)
    with suppress(UserError):
        assert all(quota >= 0 for quota in read_quotas(path).values())


def test_a_turn_beyond_the_quota_is_refused_with_all_figures() -> None:
    layout = ModelLayout("m", 2, 4, 2, 64)
    needed = session_nbytes(layout, 129)
    assert needed == 2 * layout.slot_nbytes * 3
    check_quota("t", None, others=1 << 60, needed=needed)
    check_quota("t", needed + 5, others=5, needed=needed)
    with pytest.raises(UserError, match=r"tenant 't' may have 384\.0 KiB .* take 1 B and .* up to 384\.0 KiB"):
        check_quota("t", needed, others=1, needed=needed)
