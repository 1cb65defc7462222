# SPDX-License-Identifier: Apache-2.0
"""A design as a TOML file, which `nearkv xclbin pack` takes. An unknown or ill-typed key is refused by name."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nearkv_driver.bounded_file import TEXT_NBYTES_MAX, FileRefused, read_file
from nearkv_driver.xclbin.container import Mode, XclbinError
from nearkv_driver.xclbin.design import Bank, Clock, Design, Unit
from nearkv_driver.xclbin.kernel import Kernel, nearkv_kernel, parse_xml
from nearkv_driver.xclbin.tables import BankType, ClockType

_MODES = {"hw": Mode.FLAT, "hw_emu": Mode.HW_EMU, "sw_emu": Mode.SW_EMU}
_BANK_TYPES = {kind.name: kind for kind in BankType}
_CLOCK_TYPES = {kind.name.lower(): kind for kind in ClockType}
_DEFAULT_KERNELS = ["nearkv_attend"]


def read_design(path: str | Path) -> Design:
    """XclbinError naming the file and the key. Kernels are `nearkv_attend`, or `kernel.xml` files beside the file (of
    1 MiB at most, like the file itself):

    platform = "…"; mode = "hw"; kernels = ["nearkv_attend", "vadd.xml"]
    [[clocks]] name, mhz, type = "data" | "kernel" | "system"
    [[banks]]  tag, base, nbytes, type = "DDR4" | "DRAM" | "HBM" | "HOST", used = true
    [[units]]  kernel, name, base, banks = { argument = "tag" }
    """
    file = str(path)
    try:
        document = tomllib.loads(read_file(path, TEXT_NBYTES_MAX).decode("utf-8"))
    except FileRefused as error:
        raise XclbinError(error.reason, file=file) from error
    except (ValueError, RecursionError) as error:  # not UTF-8, or no TOML, or nested by hundreds
        raise XclbinError(f"no TOML: {error}", file=file) from error
    top = _Keys(document, file, "the design")
    kernels = tuple(_kernel(name, Path(path).parent, file) for name in top.take("kernels", list, _DEFAULT_KERNELS))
    design = Design(
        platform=top.take("platform", str),
        kernels=kernels,
        units=tuple(_unit(keys) for keys in top.tables("units")),
        banks=tuple(_bank(keys) for keys in top.tables("banks")),
        clocks=tuple(_clock(keys) for keys in top.tables("clocks")),
        mode=top.choice("mode", _MODES, "hw"),
    )
    top.end()
    try:
        design.check()
    except ValueError as error:
        raise XclbinError(str(error), file=file) from error
    return design


class _Keys:
    """The keys of one table, taken one by one."""

    def __init__(self, table: Mapping[str, Any], file: str, where: str) -> None:
        self._left, self._file, self._where = dict(table), file, where

    def fail(self, text: str) -> XclbinError:
        return XclbinError(f"{self._where}: {text}", file=self._file)

    def take(self, key: str, kind: type, default: Any = None) -> Any:
        value: Any = self._left.pop(key, default)
        if value is None:
            raise self.fail(f"{key} is missing")
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise self.fail(f"{key} = {value!r}; {kind.__name__} is expected")
        if isinstance(value, int) and value < 0:
            raise self.fail(f"{key} = {value}; it is not below 0")
        return value

    def choice(self, key: str, allowed: Mapping[str, int], default: str) -> int:
        value = self.take(key, str, default)
        if value not in allowed:
            raise self.fail(f"{key} = {value!r}; allowed are {', '.join(allowed)}")
        return allowed[value]

    def tables(self, key: str) -> list[_Keys]:
        found = self.take(key, list)
        for number, table in enumerate(found):
            if not isinstance(table, dict):
                raise self.fail(f"{key}[{number}] = {table!r}; a table is expected")
        return [_Keys(table, self._file, f"{key}[{number}]") for number, table in enumerate(found)]

    def end(self) -> None:
        for key in self._left:
            raise self.fail(f"unknown key {key!r}")


def _bank(keys: _Keys) -> Bank:
    bank = Bank(
        tag=keys.take("tag", str),
        base=keys.take("base", int),
        nbytes=keys.take("nbytes", int),
        type=keys.choice("type", _BANK_TYPES, "DDR4"),
        used=keys.take("used", bool, True),
    )
    keys.end()
    return bank


def _clock(keys: _Keys) -> Clock:
    clock = Clock(keys.take("name", str), keys.take("mhz", int), keys.choice("type", _CLOCK_TYPES, "data"))
    keys.end()
    return clock


def _unit(keys: _Keys) -> Unit:
    unit = Unit(
        keys.take("kernel", str, "nearkv_attend"),
        keys.take("name", str),
        keys.take("base", int),
        keys.take("banks", dict),
    )
    keys.end()
    return unit


def _kernel(name: Any, folder: Path, file: str) -> Kernel:
    ours = nearkv_kernel()
    if name == ours.name:
        return ours
    if not isinstance(name, str) or not name.endswith(".xml"):
        raise XclbinError(f"kernels: {name!r} is neither {ours.name!r} nor a kernel.xml file", file=file)
    path = folder / name

    def fail(text: str) -> XclbinError:
        return XclbinError(text, file=str(path))

    try:
        text = read_file(path, TEXT_NBYTES_MAX)
    except FileRefused as error:
        raise fail(error.reason) from error
    elements = list(parse_xml(text, fail).iter("kernel"))
    if len(elements) != 1:
        raise fail(f"{len(elements)} kernels; one is expected")
    return Kernel.of(elements[0], fail)
