# SPDX-License-Identifier: Apache-2.0
"""Volumes that are opened again: by another process, for another model, and after files were cut or put back older."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from nearkv.errors import UserError
from nearkv.kvstore import KVStore
from nearkv.layout import ModelLayout
from nearkv.volume_errors import VolumeMismatch
from nearkv.volume_identity import read_identity

from tests.support.cli import ROOT, environment
from tests.support.stores import Mirror, layout, urls

_READER = """
import hashlib, sys
from pathlib import Path
from nearkv.kvstore import KVStore
from nearkv.volume_identity import read_identity
from tests.support.stores import layout, urls
folder = Path(sys.argv[1])
dtype = read_identity(folder / "card0").dtype
with KVStore.open(layout(dtype=dtype), urls(2, folder, kernel="model")) as store:
    rows = store.read(1, store.open_sequence("a"))
    print(dtype, rows[0].dtype, *(hashlib.sha256(array.tobytes()).hexdigest() for array in rows))
"""


@pytest.mark.parametrize(
    ("dtype", "values"),
    [("bfloat16", [188.0, 436.0, 0.1621, 3e38, 1e-38, -0.0]), ("float16", [65504.0, 6e-8, 188.0, -0.0])],
)
def test_a_new_process_finds_every_bit(tmp_path: Path, dtype: str, values: list[float]) -> None:
    bits = np.array(values, np.float32).view(np.uint32)
    words = ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)
    elements = words if dtype == "bfloat16" else np.array(values, np.float16)
    k = np.resize(elements, (1, 2, 40, 64))
    v = k[:, :, ::-1].copy()
    with KVStore.open(layout(dtype=dtype), urls(2, tmp_path, kernel="model")) as store:
        sequence = store.add_sequence("a")
        for layer in range(2):
            store.append(layer, [sequence], k, v)
    paths = environment(tmp_path)
    paths["PYTHONPATH"] += f":{ROOT}"
    line = [sys.executable, "-c", _READER, str(tmp_path)]
    told = subprocess.run(line, env=paths, capture_output=True, text=True, check=True).stdout.split()
    kind = "uint16" if dtype == "bfloat16" else "float16"
    assert told == [dtype, kind, *(hashlib.sha256(array.tobytes()).hexdigest() for array in (k, v))]


def test_equal_bytes_of_another_shape_are_refused_with_both_values(tmp_path: Path) -> None:
    """4 KV heads of 64 take as many bytes as 8 of 32 or 2 of 128."""
    shape = layout(kv_heads=4)
    for index in range(2):
        (tmp_path / str(index)).mkdir()
    folder = tmp_path / "0"
    with KVStore.open(shape, urls(2, folder, kernel="model")) as store:
        mirror = Mirror(store)
        mirror.append([mirror.add("a")], 40)
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    for changes, text in (
        ({"kv_heads": 2, "head_size": 128}, "holds kv_heads = 4, this store has 2"),
        ({"kv_heads": 4, "head_size": 128}, "holds head_size = 64, this store has 128"),
        ({"kv_heads": 4, "dtype": "bfloat16"}, "holds dtype = 'float16', this store has 'bfloat16'"),
        ({"kv_heads": 4, "model": "another"}, "holds model = 'test', this store has 'another'"),
    ):
        with pytest.raises(VolumeMismatch, match=text):
            KVStore.open(layout(**changes), urls(2, folder, kernel="model"))
    with pytest.raises(UserError, match="head_size = 32 is not supported"):
        layout(kv_heads=8, query_heads=8, head_size=32)
    with pytest.raises(VolumeMismatch, match="holds cards = 2, this store has 1"):
        KVStore.open(shape, urls(1, folder, kernel="model"))
    with pytest.raises(VolumeMismatch, match="holds cards = 2, this store has 3"):
        KVStore.open(shape, urls(3, folder, kernel="model"))
    twice = [f"sw_emu:{i}?kernel=model&ssd={folder}/card0" for i in range(2)]
    with pytest.raises(UserError, match="two cards name the same volume"):
        KVStore.open(shape, twice)
    after = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert after == before


def test_k_and_v_do_not_change_places(tmp_path: Path) -> None:
    with KVStore.open(layout(), urls(1, tmp_path, kernel="model")) as store:
        sequence = store.add_sequence("a")
        k, v = np.full((1, 2, 40, 64), 3, np.float16), np.full((1, 2, 40, 64), 5, np.float16)
        for layer in range(2):
            store.append(layer, [sequence], k, v)
    with KVStore.open(layout(), urls(1, tmp_path, kernel="model")) as store:
        got = store.read(0, store.open_sequence("a"))
        assert [np.unique(array).tolist() for array in got] == [[3.0], [5.0]]


def _cut_by_a_byte(folder: Path) -> None:
    path = folder / "data-000000.pages"
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size - 1)


def _cut_to_half(folder: Path) -> None:
    path = folder / "data-000000.pages"
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size // 2)


def _last_used_page_zeroed(folder: Path) -> None:
    path = folder / "data-000000.pages"
    data = path.read_bytes()
    used = max(at for at in range(0, len(data), 4096) if any(data[at : at + 4096]))
    with path.open("r+b") as file:
        file.seek(used)
        file.write(bytes(4096))


def _orphans(folder: Path) -> None:
    (folder / "volume.json.new").write_bytes(b"{")
    (folder / "notes").write_bytes(b"mine")


def _older(name: str) -> Callable[[Path], None]:
    def put_back(folder: Path) -> None:
        for path in folder.glob("index.sqlite-*"):
            path.unlink()
        shutil.copy(folder.with_name("older") / name, folder / name)

    return put_back


@pytest.mark.parametrize(
    ("damage", "least"),
    [
        (_cut_by_a_byte, 0),
        (_cut_to_half, 0),
        (_last_used_page_zeroed, 0),
        (_orphans, 40),
        (_older("data-000000.pages"), 0),
        (_older("index.sqlite"), 20),
    ],
    ids=["cut by a byte", "cut to half", "zeroed", "orphans", "index newer", "data newer"],
)
def test_the_longest_good_prefix_of_forty_tokens(tmp_path: Path, damage: Callable[[Path], None], least: int) -> None:
    """Older files are those of when it held 20."""
    shape: ModelLayout = layout()
    cards = urls(1, tmp_path, kernel="model")
    with KVStore.open(shape, cards) as store:
        mirror = Mirror(store)
        sequence = mirror.add("a")
        mirror.append([sequence], 20)
    shutil.copytree(tmp_path / "card0", tmp_path / "older")
    with KVStore.open(shape, cards) as store:
        mirror.store = store
        mirror.append([store.open_sequence("a")], 20)
    damage(tmp_path / "card0")
    with KVStore.open(shape, cards) as store:
        mirror.store = store
        opened = store.open_sequence("a")
        info = store.info(opened)
        assert least <= info.tokens <= 40
        if damage is _orphans:
            assert (info.tokens, info.dropped_tokens, info.reason) == (40, 0, "")
        elif damage.__name__ != "put_back" or not (info.tokens == 20 and info.dropped_tokens == 0):
            assert info.tokens + info.dropped_tokens == 40
            assert bool(info.reason) == bool(info.dropped_tokens)
        if damage is _last_used_page_zeroed:
            assert "differs from its checksum" in info.reason
        mirror.moved(sequence, opened, info.tokens)
        mirror.check_rows(opened)
        mirror.step([opened], 2)
    left = {path.name for path in (tmp_path / "card0").iterdir()}
    assert "volume.json.new" not in left
    assert ("notes" in left) == (damage is _orphans)
    identity = read_identity(tmp_path / "card0")
    assert identity is not None
    assert identity.dtype == "float16"
