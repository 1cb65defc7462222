# SPDX-License-Identifier: Apache-2.0
"""xclbin files: the container, its tables, and what a design says of banks, clocks and compute units.

Reads and writes bytes; opens no card and starts no tool. The layout is that of `xclbin.h`, which XRT ships.
"""

from nearkv_driver.xclbin.container import Container, Header, Mode, Section, SectionKind, XclbinError, read_container
from nearkv_driver.xclbin.design import Bank, Clock, Design, Unit
from nearkv_driver.xclbin.kernel import Argument, Kernel, Port, nearkv_kernel

__all__ = [
    "Argument",
    "Bank",
    "Clock",
    "Container",
    "Design",
    "Header",
    "Kernel",
    "Mode",
    "Port",
    "Section",
    "SectionKind",
    "Unit",
    "XclbinError",
    "nearkv_kernel",
    "read_container",
]
