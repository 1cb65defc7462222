# SPDX-License-Identifier: Apache-2.0
"""Writes fpga/rtl/vitis/kernel.xml from the register map, or checks that it has not drifted.

python -m nearkv_driver.xclbin.kernel_file [--check]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from nearkv_driver.xclbin.kernel import nearkv_kernel

_FILE = Path(__file__).resolve().parents[3] / "fpga" / "rtl" / "vitis" / "kernel.xml"


def main(arguments: Sequence[str] | None = None, file: Path = _FILE) -> int:
    """Writes kernel.xml; with --check compares it. 1 where it differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 when the file differs")
    wanted = nearkv_kernel().xml()
    if not parser.parse_args(arguments).check:
        file.write_text(wanted)
        return 0
    if file.is_file() and file.read_text() == wanted:
        return 0
    sys.stderr.write(f"{file} is not what fpga/regmap.toml gives: python -m nearkv_driver.xclbin.kernel_file\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())
