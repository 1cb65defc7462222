# SPDX-License-Identifier: Apache-2.0
"""The link configuration of N compute units on a card, as text. What is right in one is `link_check`'s matter."""

from __future__ import annotations

from nearkv_driver.bitstream.platforms import Platform
from nearkv_driver.xclbin.kernel import Kernel


def link_text(platform: Platform, kernel: Kernel, cus: int, frequency_mhz: int) -> str:
    """Every unit gets one memory for all its masters, as docs/kernel-contract.md asks."""
    names = [f"{kernel.name}_{number + 1}" for number in range(cus)]
    lines = [
        f"# {platform.title}, {platform.platforms[0]}: {cus} compute unit{'s' if cus > 1 else ''}.",
        "# A unit has one memory: its masters read what others of it wrote.",
        f"kernel_frequency={frequency_mhz}",
        "",
        "[connectivity]",
        f"nk={kernel.name}:{cus}:{'.'.join(names)}",
    ]
    for number, name in enumerate(names):
        tag = platform.tag_of(number, cus)
        lines += [f"sp={name}.{argument.name}:{tag}" for argument in kernel.arguments if argument.pointer]
        slr = platform.slr_of(number)
        lines += [f"slr={name}:{slr}"] if slr else []
    return "\n".join(lines) + "\n"
