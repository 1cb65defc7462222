# SPDX-License-Identifier: Apache-2.0
"""Builds and loads nearkv's own binding of XRT; says what is missing when that fails."""

from __future__ import annotations

from nearkv_driver.errors import TransportUnavailable
from nearkv_driver.xrt.native_api import Library, NativeApi
from nearkv_driver.xrt.native_build import build_binding
from nearkv_driver.xrt.places import Places


def load_native(places: Places, note: str) -> NativeApi:
    """`note`: why this binding, in place of pyxrt. Raises TransportUnavailable (BuildError when it cannot be built)."""
    path = build_binding(places)
    try:
        return NativeApi(Library(path), note)
    except OSError as error:
        raise TransportUnavailable(
            f"nearkv's binding of XRT does not load: {error}",
            remedy="reinstall XRT: its libraries are not where they were",
        ) from error
