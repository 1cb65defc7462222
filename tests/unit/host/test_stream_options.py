# SPDX-License-Identifier: Apache-2.0
"""Defaults by the card's size, values as given, and refusals that name option and value."""

from __future__ import annotations

import pytest
from nearkv.stream_options import StreamOptions
from nearkv_driver.registry import parse_url

from tests.support.stores import layout

MIB = 1 << 20


def options(text: str = "", dram: int = 64 * MIB) -> StreamOptions:
    return StreamOptions.of(parse_url(f"sw_emu:0{text}"), dram, layout())


@pytest.mark.parametrize(
    ("dram", "waves", "wave"),
    [(4 << 30, 4, 16 * MIB), (64 * MIB, 4, 4 * MIB), (MIB, 4, 65536), (MIB // 2, 2, 65536), (4096, 2, 65536)],
)
def test_staging_is_a_quarter_within_limits(dram: int, waves: int, wave: int) -> None:
    found = options(dram=dram)
    assert (found.waves, found.wave_nbytes) == (waves, wave)
    assert (found.reads, found.ahead, found.resident_nbytes) == (16, True, None)


@pytest.mark.parametrize(
    ("text", "nbytes"), [("0", 0), ("0.5", 32 * MIB), ("1", 64 * MIB), ("1.0", 64 * MIB), ("3M", 3 * MIB), ("2", 2)]
)
def test_resident_is_a_share_or_a_size(text: str, nbytes: int) -> None:
    assert options(f"?resident={text}").resident_nbytes == nbytes


def test_values_are_taken() -> None:
    found = options("?staging=700K&reads=3&prefetch=off")
    assert (found.waves, found.wave_nbytes, found.reads, found.ahead) == (4, 5 * 32768, 3, False)
    assert found.request_nbytes == 53 * 4096


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("?resident=-1", "resident=-1"),
        ("?resident=1.5", r"resident=1\.5"),
        ("?resident=half", "resident=half"),
        ("?staging=64K", "staging=64K; this model needs at least 131072 bytes"),
        ("?staging=lots", "staging=lots"),
        ("?reads=0", "reads=0; 1 to 256"),
        ("?reads=257", "reads=257; 1 to 256"),
        ("?reads=many", "reads=many"),
    ],
)
def test_what_makes_no_sense_is_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        options(text)


def test_prefetch_is_on_or_off() -> None:
    with pytest.raises(ValueError, match="prefetch=maybe; allowed are on, off"):
        parse_url("sw_emu:0?prefetch=maybe")
