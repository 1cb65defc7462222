# SPDX-License-Identifier: Apache-2.0
"""The stand-ins for the HLS headers: numbers wrap as hardware's do, ranges cut right, streams are bounded."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from nearkv_emulation.build import WARNINGS, Compiler, hls_folder

PROGRAM = """
#include <ap_int.h>
#include <hls_stream.h>
#include <stdexcept>
template <typename FUNCTION>
bool refuses(FUNCTION function) {
    try { function(); } catch (const std::logic_error&) { return true; }
    return false;
}
int main() {
    return (STATEMENT) ? 0 : 1;
}
"""

HOLDS = {
    "signed wraps": "ap_int<24>(1 << 23) == -(1 << 23) && ap_int<24>((1 << 23) - 1) == (1 << 23) - 1",
    "signed keeps low bits": "ap_int<5>(-17) == 15 && ap_int<5>(-16) == -16",
    "unsigned wraps": "ap_uint<10>(-1) == 1023 && ap_uint<10>(1024) == 0",
    "50 bits": "ap_int<50>(1LL << 49) == -(1LL << 49) && ap_int<50>(-(1LL << 49) - 1) == (1LL << 49) - 1",
    "64 bits": "ap_int<64>(-1) == -1 && ap_uint<64>(-1) == ~0ULL",
    "128 bits": "int64_t(ap_int<80>(ap_int<80>(__int128(1) << 79) >> 32)) == -(1LL << 47)",
    "adding wraps": "[] { ap_int<50> x = (1LL << 49) - 1; x += 1; return int64_t(x) == -(1LL << 49); }()",
    "range read": "[] { ap_uint<512> w = 0; w.range(127, 64) = 0x0123456789ABCDEFULL; const ap_uint<512> c = w;"
    " return c.range(79, 64) == 0xCDEF && c.range(131, 68) == 0x00123456789ABCDEULL && c.range(63, 0) == 0; }()",
    "range written": "[] { ap_uint<512> w = -1; w.range(31, 16) = 0; const ap_uint<512> c = w;"
    " return c.range(63, 0) == 0xFFFFFFFF0000FFFFULL && c.range(511, 448) == ~0ULL; }()",
    "wrap is no fault": "!refuses([] { ap_int<8> x = 1000; (void)x; })",
    "exact fits": "!refuses([] { nearkv_csim::Exact<24> x = -(1 << 23); (void)x; })",
    "exact does not fit": "refuses([] { nearkv_csim::Exact<24> x = 1 << 23; (void)x; })",
    "stream in order": "[] { hls::stream<int, 2> s; s.write(1); s.write(2); const int a = s.read(); s.write(3);"
    " return a == 1 && s.read() == 2 && s.read() == 3 && s.empty(); }()",
    "stream overflows": "refuses([] { hls::stream<int, 1> s; s.write(1); s.write(2); })",
    "stream read empty": "refuses([] { hls::stream<int, 1> s; s.read(); })",
    "stream left full": "refuses([] { hls::stream<int, 1> s; s.write(1); })",
}


@pytest.mark.parametrize("name", HOLDS)
def test_stand_in(name: str, tmp_path: Path) -> None:
    source, program = tmp_path / "test.cpp", tmp_path / "test"
    source.write_text(PROGRAM.replace("STATEMENT", HOLDS[name]))
    flags = ["-std=c++17", *WARNINGS, "-Werror", "-DNEARKV_CHECKED", f"-I{hls_folder() / 'csim_include'}"]
    done = subprocess.run(
        [Compiler().path(), *flags, str(source), "-o", str(program)], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert subprocess.run([str(program)], timeout=10).returncode == 0
