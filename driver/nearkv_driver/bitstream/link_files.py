# SPDX-License-Identifier: Apache-2.0
"""Writes fpga/hls/vitis/link_*.cfg, one compute unit each, or checks that they have not drifted.

python -m nearkv_driver.bitstream.link_files [--check]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from nearkv_driver.bitstream.link_text import link_text
from nearkv_driver.bitstream.platforms import load_platforms
from nearkv_driver.xclbin.kernel import nearkv_kernel

_FOLDER = Path(__file__).resolve().parents[3] / "fpga" / "hls" / "vitis"


def main(arguments: Sequence[str] | None = None, folder: Path = _FOLDER) -> int:
    """Writes one link file per platform; with --check compares them. 1 where one differs or is of no platform."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 when a file differs")
    check = parser.parse_args(arguments).check
    wanted = {
        folder / f"link_{platform.key}.cfg": link_text(platform, nearkv_kernel(), 1, platform.frequency_mhz)
        for platform in load_platforms().values()
    }
    differ = [path for path, text in wanted.items() if not path.is_file() or path.read_text() != text]
    differ += [path for path in sorted(folder.glob("link_*.cfg")) if path not in wanted]
    if not check:
        for path, text in wanted.items():
            path.write_text(text)
        return 0
    for path in differ:
        sys.stderr.write(f"{path} is not what the platform table gives: python -m nearkv_driver.bitstream.link_files\n")
    return int(bool(differ))


if __name__ == "__main__":
    sys.exit(main())
