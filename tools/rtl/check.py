# SPDX-License-Identifier: Apache-2.0
"""Checks fpga/rtl against its own rules, the register map, the HLS top and the host's constants.

    python -m tools.rtl.check [FOLDER]      prints one sentence per finding; exits with 1 when there is one

FOLDER is a repository; without it, the one that holds this file.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tools.rtl import contract, hls_top, interface, outputs, registers, structure, verilog

ROOT = Path(__file__).parents[2]


def findings(root: Path) -> list[str]:
    """Every finding in a repository; an unreadable file is the only one then."""
    rtl = root / "fpga" / "rtl"
    try:
        modules = verilog.read(rtl.glob("*.v"), rtl)
        wanted = contract.read(root / "fpga" / "regmap.toml")
        hls = hls_top.only(root / "fpga" / "hls" / "src")
        word_bits = hls_top.word_bits(root / "fpga" / "hls" / "include" / "types.hpp")
        by_name = {module.name: module for module in modules}
        problems = structure.findings(modules, wanted.kernel)
        problems += interface.findings(by_name, wanted, hls, word_bits)
        problems += outputs.findings(modules)
    except SyntaxError as error:
        return [str(error)]
    if registers.MODULE in by_name:
        problems += registers.findings(by_name[registers.MODULE], wanted)
    else:
        problems.append(f"module {registers.MODULE} is missing; it decodes the registers of {wanted.file}")
    problems += registers.host_findings(root / "driver" / "nearkv_driver" / "regmap.py", wanted)
    return problems


def main(argv: list[str]) -> int:
    """Prints what is wrong; the exit code says whether anything is."""
    root = Path(argv[0]).resolve() if argv else ROOT
    problems = findings(root)
    for problem in problems:
        sys.stderr.write(f"{problem}\n")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
