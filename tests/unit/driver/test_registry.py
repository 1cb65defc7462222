# SPDX-License-Identifier: Apache-2.0
"""Card URLs."""

from __future__ import annotations

import pytest
from nearkv_driver.registry import open_transport, parse_url


def test_a_url_is_scheme_target_and_options() -> None:
    url = parse_url("sw_emu:0?dram=4G&ssd=/volumes/a b&io=buffered")
    assert (url.scheme, url.target) == ("sw_emu", "0")
    assert dict(url.options) == {"dram": "4G", "ssd": "/volumes/a b", "io": "buffered"}
    assert url.text == "sw_emu:0?dram=4G&ssd=/volumes/a b&io=buffered"


def test_options_are_not_needed_and_targets_may_hold_colons() -> None:
    assert parse_url("sw_emu:0000:3b:00.1").target == "0000:3b:00.1"
    assert parse_url("sw_emu:0").options == {}


def test_values_may_hold_equals_signs_and_encoded_separators() -> None:
    assert parse_url("sw_emu:0?ssd=/a=b%26c").option("ssd", "") == "/a=b&c"


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("", "not of the form"),
        ("sw_emu", "not of the form"),
        ("sw_emu:", "not of the form"),
        ("/dev/card", "not of the form"),
        (":0", "not of the form"),
        ("sw_emu:0 1", "not of the form"),
        ("hw:0", "unknown scheme 'hw'; known: sw_emu, hw_emu, xrt, pynq"),
        ("SW_EMU:0", "unknown scheme 'SW_EMU'"),
        ("sw_emu:0?", "option ''"),
        ("sw_emu:0?dram", "option 'dram'"),
        ("sw_emu:0?dram=", "option 'dram='"),
        ("sw_emu:0?=4G", "option '=4G'"),
        ("sw_emu:0?dram=4G&&io=direct", "option ''"),
        ("sw_emu:0?dram=4G&dram=4G", "'dram' is given twice"),
        ("sw_emu:0?io=fast", "io=fast; allowed are direct, buffered"),
        ("sw_emu:0?p2p=off", "p2p=off; allowed are on, bounce"),
        (
            "sw_emu:0?sdd=/x",
            "allows ssd, io, p2p, spill, resident, staging, reads, prefetch, quota, evict, dram, base, banks, kernel, "
            "drive",
        ),
        ("sw_emu:0?dram=0", "dram=0; a size above 0"),
        ("sw_emu:0?dram=4T", "dram=4T"),
        ("sw_emu:0?dram=-1", "dram=-1"),
        ("sw_emu:0?dram=1.5G", "dram=1.5G"),
        ("sw_emu:0?dram=4097", "multiples of 4096"),
        ("sw_emu:0?dram=8589934592G", "cannot map a bank of 9223372036854775808 bytes"),
        ("sw_emu:0?dram=1073741824G", "cannot map a bank"),
        ("sw_emu:0?ssd=a%00b", "option 'ssd' holds a NUL"),
        ("sw_emu:0?base=4097", "multiples of 4096"),
        ("sw_emu:0?base=-4096", "multiples of 4096"),
        ("sw_emu:0?base=low", "base=low; an address"),
        ("sw_emu:0?base=0xFFFFFFFFFFFFF000&dram=8K", "pass 2"),
        ("sw_emu:0?banks=3", "banks=3; allowed are 1, 2"),
        ("sw_emu:0?kernel=rtl", "kernel=rtl; allowed are hls, model"),
        ("sw_emu:0?drive=disk", "drive=disk; known are smartssd, or figures"),
        ("sw_emu:0?drive=read:3G", "drive=read:3G"),
        ("sw_emu:0?drive=read:3G,write:0", "write:0"),
        ("sw_emu:0?drive=read:3G,write:1G,read:2G", "read:2G"),
        ("sw_emu:0?drive=read:3T,write:1G", "read:3T"),
    ],
)
def test_bad_urls_are_refused_in_one_line(url: str, text: str) -> None:
    with pytest.raises(ValueError, match="card URL") as caught:
        open_transport(url)
    assert text in str(caught.value)
    assert "\n" not in str(caught.value)
    assert repr(url) in str(caught.value)


@pytest.mark.parametrize(("size", "nbytes"), [("4096", 4096), ("64K", 65536), ("512M", 1 << 29), ("2G", 2 << 30)])
def test_sizes(size: str, nbytes: int) -> None:
    card = open_transport(f"sw_emu:0?dram={size}&kernel=model")
    assert card.info().banks[0].nbytes == nbytes
    card.close()
