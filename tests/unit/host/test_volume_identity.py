# SPDX-License-Identifier: Apache-2.0
"""A volume says what it was made for; anything else is refused, both values named."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
from nearkv.volume_errors import VolumeDamaged, VolumeMismatch
from nearkv.volume_identity import FILE_NAME, FORMAT, VolumeIdentity, read_identity, write_identity

from tests.support.stores import layout

IDENTITY = replace(VolumeIdentity.of(layout(), 1, 3), store="0123")


def test_it_reads_back_as_written(tmp_path: Path) -> None:
    assert read_identity(tmp_path) is None
    write_identity(tmp_path, IDENTITY)
    assert read_identity(tmp_path) == IDENTITY
    assert [path.name for path in tmp_path.iterdir()] == [FILE_NAME]


def test_it_is_on_the_medium_before_it_has_its_name_and_the_name_before_the_call_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fsync, synced = os.fsync, []

    def noted(fd: int) -> None:
        synced.append((Path(os.readlink(f"/proc/self/fd/{fd}")).name, (tmp_path / FILE_NAME).exists()))
        fsync(fd)

    monkeypatch.setattr(os, "fsync", noted)
    write_identity(tmp_path, IDENTITY)
    assert synced == [(f"{FILE_NAME}.new", False), (tmp_path.name, True)]


@pytest.mark.parametrize(
    "change",
    [{"model": "x"}, {"layers": 9}, {"kv_heads": 9}, {"head_size": 80}, {"dtype": "bf16"}, {"card": 0}, {"cards": 1}],
)
def test_each_field_counts(tmp_path: Path, change: dict[str, object]) -> None:
    name, value = next(iter(change.items()))
    found = replace(IDENTITY, **change)  # type: ignore[arg-type]
    with pytest.raises(VolumeMismatch) as caught:
        IDENTITY.check(found, tmp_path)
    assert (caught.value.what, caught.value.found) == (name, repr(value))
    assert caught.value.wanted == repr(getattr(IDENTITY, name))
    assert str(tmp_path) in str(caught.value)


def test_the_store_counts_only_where_it_is_known(tmp_path: Path) -> None:
    other = replace(IDENTITY, store="4567")
    with pytest.raises(VolumeMismatch, match="store"):
        IDENTITY.check(other, tmp_path)
    replace(IDENTITY, store="").check(other, tmp_path)


def test_a_later_format_is_refused_before_its_fields_are_read(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_text(json.dumps({"format": FORMAT + 1, "shape": "unknown"}))
    with pytest.raises(VolumeMismatch, match=f"format = {FORMAT + 1}, this store has {FORMAT}; a later version"):
        read_identity(tmp_path)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("model", 5),
        ("layers", "x"),
        ("layers", True),
        ("kv_heads", 0),
        ("head_size", 1e9),
        ("dtype", "int8"),
        ("card", 4),
        ("card", []),
        ("cards", None),
        ("store", 7),
        ("format", 1.0),
    ],
)
def test_values_that_no_volume_has_are_damage_of_the_file(tmp_path: Path, name: str, value: object) -> None:
    write_identity(tmp_path, IDENTITY)
    assert read_identity(tmp_path) == IDENTITY
    path = tmp_path / FILE_NAME
    path.write_text(json.dumps(json.loads(path.read_text()) | {name: value}))
    with pytest.raises(VolumeDamaged, match=rf"volume\.json: is not the identity of a volume: .*{name} = "):
        read_identity(tmp_path)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"format": 1}', '{"format": 1, "colour": 3}', "\xff{", "[" * 100000])
def test_what_is_no_identity_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / FILE_NAME).write_bytes(text.encode("latin-1"))
    with pytest.raises(VolumeDamaged, match=r"volume\.json"):
        read_identity(tmp_path)
