# SPDX-License-Identifier: Apache-2.0
"""Which model stands behind a kernel of the xclbin: ours in its three forms, and others by `NAME=MODULE:FUNCTION`."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import cast

from nearkv_driver.regmap import KERNEL

from nearkv_emulation.kernel import Kernel, Masters
from nearkv_emulation.xrt_device.function_unit import FunctionUnit
from nearkv_emulation.xrt_device.model import KernelModel, ModelMaker, UnitPlace

KINDS = ("hls", "model", "rtl")


def prepare(kind: str) -> None:
    """Builds what the kernel needs into the cache. Raises BuildError."""
    if kind == "hls":
        from nearkv_emulation.csim import CsimKernel

        CsimKernel()
    elif kind == "rtl":
        from nearkv_emulation.rtl_build import library

        library()


def makers(kind: str, others: Sequence[str] = ()) -> dict[str, ModelMaker]:
    """Makers by name of the kernel. ValueError for a kind or an entry of `others` that means nothing."""
    if kind not in KINDS:
        raise ValueError(f"kernel {kind!r}; allowed are {', '.join(KINDS)}")
    found: dict[str, ModelMaker] = {KERNEL: _OURS[kind]}
    for entry in others:
        name, equals, target = entry.partition("=")
        module, colon, function = target.partition(":")
        if not (name and equals and module and colon and function):
            raise ValueError(f"model {entry!r}; NAME=MODULE:FUNCTION is expected")
        try:
            found[name] = cast(ModelMaker, getattr(importlib.import_module(module), function))
        except (ImportError, AttributeError) as error:
            raise ValueError(f"model {entry!r}: {error}") from error
    return found


def _functional(place: UnitPlace, kernel: Kernel) -> KernelModel:
    masters = _masters(place)

    def run(arguments: Mapping[str, int]) -> None:
        kernel.run(masters, arguments["kv"], arguments["ctl"], arguments["out"])

    return FunctionUnit(place.name, place.kernel, run)


def _hls(place: UnitPlace) -> KernelModel:
    from nearkv_emulation.csim import CsimKernel

    return _functional(place, CsimKernel())


def _model(place: UnitPlace) -> KernelModel:
    from nearkv_emulation.model import ModelKernel

    return _functional(place, ModelKernel())


def _rtl(place: UnitPlace) -> KernelModel:
    from nearkv_emulation.xrt_device.rtl_unit import RtlUnit

    return RtlUnit(_masters(place))


def _masters(place: UnitPlace) -> Masters:
    missing = [name for name in ("kv", "ctl", "out") if not place.regions.get(name)]
    if missing:
        raise ValueError(f"unit {place.name}: its arguments {', '.join(missing)} are linked to no bank of the card")
    return Masters(place.regions["kv"], place.regions["ctl"], place.regions["out"])


_OURS: Mapping[str, ModelMaker] = {"hls": _hls, "model": _model, "rtl": _rtl}
