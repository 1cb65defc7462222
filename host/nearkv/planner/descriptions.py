# SPDX-License-Identifier: Apache-2.0
"""Measured figures as hardware descriptions: the text of four TOML files, and a folder of them. Measures nothing."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from pathlib import Path

from nearkv.errors import UserError, one_line
from nearkv.models.measure import PAIRS
from nearkv.planner.calibration import Measured

NAMES = ("drive.toml", "card.toml", "gpu.toml", "host.toml")


def check_folder(folder: Path) -> None:
    """Makes the folder; UserError where it cannot be made, or where a description would be overwritten."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"folder {folder}: {one_line(error)}") from error
    there = [name for name in NAMES if (folder / name).exists()]
    if there:
        raise UserError(f"folder {folder} has {', '.join(there)}; give another one, or remove them")


def write(measured: Measured, folder: Path) -> list[Path]:
    """The files that were written."""
    written = []
    for name, text in texts(measured).items():
        path = folder / name
        try:
            path.write_text(text, encoding="utf-8")
        except OSError as error:
            raise UserError(f"{path}: {one_line(error)}") from error
        written.append(path)
    return written


def texts(m: Measured) -> dict[str, str]:
    """File name to contents."""
    head = f"# Measured by `nearkv calibrate` on {platform.node()}: {platform.machine()}, {os.cpu_count()} CPUs.\n"
    how = "" if m.drive.direct else "# The drive refused direct I/O: the page cache may have answered.\n"
    rates = _by_size("read", m.drive.read_by_size) + _by_size("write", m.drive.write_by_size)
    drive = (
        f'{head}{how}kind = "drive"\ncapacity = "{m.drive.capacity / 1e9:.6g} GB"\n'
        f'read = "{_rate(m.drive.read)}"\nwrite = "{_rate(m.drive.write)}"\n'
        f'p2p_read = "{_rate(m.drive.read)}"\np2p_write = "{_rate(m.drive.write)}"\n\n[by_size]\n{rates}'
    )
    a = m.arithmetic
    launch = max(0.0, a.card_layer_s - PAIRS * m.kernel.job_s)
    job = max(0.0, m.kernel.job_s - m.kernel.host_job_s)
    card = (
        f'{head}# An emulated card (sw_emu): its kernel computes on this CPU.\nkind = "card"\ndrive = "drive.toml"\n'
        f'memory = "4 GiB"        # the default of a card URL\nmemory_rate = "{_rate(m.copy_s)}"\n'
        f'clock = "300 MHz"       # not used: kernel_rate is\nkernel_rate = "{_rate(m.kernel.nbytes_s)}"\n'
        f'link = "{_rate(m.copy_s)}"\nlaunch = "{launch * 1e6:.5g} us"'
        f'  # a whole call of the host but for its jobs\njob = "{job * 1e6:.5g} us"\n'
        'dma = "0 us"            # in launch\n'
    )
    gpu = (
        f'{head}# The model\'s arithmetic; weights count 2 bytes whatever torch holds.\nkind = "gpu"\n'
        f'compute = "{a.flop_s / 1e9:.5g} GFLOP/s"\nefficiency = "1"        # compute is what was reached\n'
        f'memory = "0 B"\nmemory_rate = "{_rate(a.weights_s)}"\nlink = "{_rate(m.copy_s)}"\n'
        f'layer_overhead = "{a.layer_s * 1e6:.5g} us"\nin_host_memory = true\n\n'
        "# Bytes of weights per second in products of so many rows; more rows than the last follow the roofline.\n"
        f"[by_rows]\n{_by_rows('layer', a.layer_rows)}{_by_rows('head', a.head_rows)}"
    )
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    host = (
        f'{head}kind = "host"\ndram = "{memory / 1e9:.5g} GB"\ndram_rate = "{_rate(m.copy_s)}"\n'
        f'uplink = "{_rate(m.copy_s)}"\ndrives_link = "{_rate(m.drive.read)}"\nfile_rate = "{_rate(m.drive.read)}"\n'
        f'attention = "{_rate(a.attention_s)}"\npage_copy = "50 us"      # assumption\n'
        f'job = "{m.kernel.host_job_s * 1e6:.5g} us"\n'
        f'runtime = "1 GB"         # assumption\n'
    )
    return dict(zip(NAMES, (drive, card, gpu, host), strict=True))


def _by_size(what: str, rows: Sequence[tuple[int, float]]) -> str:
    pairs = ", ".join(f'["{size >> 10} KiB", "{_rate(rate)}"]' for size, rate in rows)
    return f"{what} = [{pairs}]\n"


def _by_rows(what: str, rows: Sequence[tuple[int, float]]) -> str:
    pairs = ", ".join(f'[{count}, "{_rate(rate)}"]' for count, rate in rows)
    return f"{what} = [{pairs}]\n"


def _rate(value: float) -> str:
    return f"{value / 1e9:.5g} GB/s"
