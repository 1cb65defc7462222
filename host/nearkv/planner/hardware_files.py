# SPDX-License-Identifier: Apache-2.0
"""Hardware descriptions from TOML files: those of this package by name, a user's own by path. Says what a file lacks,
what it has too much, and which value is impossible. Reads files and nothing else."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import MISSING, fields
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeVar

from nearkv_driver.bounded_file import TEXT_NBYTES_MAX, FileRefused, read_file

from nearkv.errors import UserError, one_line
from nearkv.planner.hardware import Card, Checked, Drive, Gpu, Host, RowTable, SizeTable
from nearkv.planner.units import NUMBER, RATE, SIZE, Kind, parse

KINDS: Mapping[str, type[Checked]] = {"drive": Drive, "card": Card, "gpu": Gpu, "host": Host}

Part = TypeVar("Part", Drive, Card, Gpu, Host)


def names(kind: type[Checked]) -> list[str]:
    """Names of this package's descriptions of a kind."""
    found = (item.name for item in files("nearkv.planner").joinpath("hardware").iterdir())
    return sorted(name.removesuffix(".toml") for name in found if name.endswith(".toml") and _kind(name) is kind)


def load(name: str, kind: type[Part]) -> Part:
    """The description of that name, or of the file at that path. UserError says what is wrong with it."""
    if name.endswith(".toml"):
        path = Path(name)
        try:
            data = read_file(path, TEXT_NBYTES_MAX)
        except FileRefused as error:
            raise UserError(f"hardware file {name} {error.reason}") from error
        return _part(_toml(data, name), kind, path.stem, path.parent)
    if name not in names(kind):
        raise UserError(f"no {_word(kind)} is called {name!r}; known: {', '.join(names(kind))}; or give a .toml file")
    return _part(_packaged(f"{name}.toml"), kind, name, None)


def _part(table: Mapping[str, Any], kind: type[Part], name: str, folder: Path | None) -> Part:
    """From what a TOML file holds; `folder` is where other files that it names lie."""
    given = dict(table)
    word = given.pop("kind", None)
    if word != _word(kind):
        raise UserError(f"{name}: kind is {word!r}; {_word(kind)!r} is expected")
    known = {f.name: f for f in fields(kind) if f.name != "name"}
    unknown = sorted(given.keys() - known.keys())
    if unknown:
        raise UserError(f"{name}: unknown parameter {', '.join(unknown)}; known: {', '.join(known)}")
    missing = [f.name for f in known.values() if f.default is MISSING and f.default_factory is MISSING]
    missing = [field for field in missing if field not in given]
    if missing:
        raise UserError(f"{name}: {', '.join(missing)} missing")
    return kind(name=name, **{key: _value(key, value, known[key], name, folder) for key, value in given.items()})


def _value(key: str, value: Any, entry: Any, name: str, folder: Path | None) -> Any:
    limits = entry.metadata.get("limits")
    if limits is not None:
        return parse(value, limits.kind, f"{name}: {key}")
    if key == "drive":
        if not isinstance(value, str):
            raise UserError(f"{name}: drive is {value!r}; the name of a drive or a .toml file is expected")
        return load(str(folder / value) if folder and value.endswith(".toml") else value, Drive)
    if key == "by_size":
        return SizeTable(**_pairs(value, f"{name}: by_size", ("read", "write"), SIZE, '"4 KiB"'))
    if key == "by_rows":
        return RowTable(**_pairs(value, f"{name}: by_rows", ("layer", "head"), NUMBER, "4"))
    if not isinstance(value, bool):
        raise UserError(f"{name}: {key} is {value!r}; true or false is expected")
    return value


def _pairs(
    value: Any, where: str, lists: tuple[str, str], kind: Kind, example: str
) -> dict[str, tuple[tuple[float, float], ...]]:
    """Lists of pairs of something of `kind` and a rate, by the names of the lists."""
    wanted = f'[{example}, "0.05 GB/s"] pairs'
    if not isinstance(value, dict) or set(value) - set(lists):
        raise UserError(f"{where} holds two lists of {wanted}, {lists[0]} and {lists[1]}")
    rows = {}
    for what, pairs in value.items():
        if not isinstance(pairs, list) or any(not isinstance(p, list) or len(p) != 2 for p in pairs):
            raise UserError(f"{where}.{what} is a list of {wanted}")
        at = f"{where}.{what}"
        rows[what] = tuple((parse(first, kind, at), parse(speed, RATE, at)) for first, speed in pairs)
    return rows


def _kind(file_name: str) -> type[Checked] | None:
    return KINDS.get(str(_packaged(file_name).get("kind")))


def _packaged(file_name: str) -> dict[str, Any]:
    return _toml(files("nearkv.planner").joinpath("hardware").joinpath(file_name).read_bytes(), file_name)


def _toml(data: bytes, name: str) -> dict[str, Any]:
    try:
        return tomllib.loads(data.decode("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UserError(f"hardware file {name}: {one_line(error)}") from error


def _word(kind: type[Checked]) -> str:
    return next(word for word, known in KINDS.items() if known is kind)
