# SPDX-License-Identifier: Apache-2.0
"""`nearkv calibrate`: measure this machine and write descriptions that `nearkv plan` takes."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from nearkv.cli.run import Run
from nearkv.cli.table import two_columns
from nearkv.errors import UserError, one_line
from nearkv.models.measure import Clock
from nearkv.models.runtime import find_device, quiet_transformers, torch_threads
from nearkv.planner.calibration import Measured, measure
from nearkv.planner.descriptions import check_folder, write
from nearkv.report import Row


def command(
    output: Annotated[Path, typer.Argument(help="Folder for drive.toml, card.toml, gpu.toml and host.toml.")],
    folder: Annotated[Path, typer.Option(help="A folder on the drive to measure; 128 MiB are written there.")] = Path(),
    device: Annotated[str, typer.Option(help="Where the model would compute: auto, cpu or cuda.")] = "auto",
    threads: Annotated[
        int | None, typer.Option(min=1, max=4096, help="Threads for torch. Default: as torch likes.")
    ] = None,
    cpu_time: Annotated[
        bool, typer.Option("--cpu-time", help="Time kernel and arithmetic by CPU time: for a machine with other work.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> Run:
    """Measure drive, memory, emulated kernel and arithmetic for `nearkv plan`."""
    return Run(
        partial(run, output, folder, device, threads, time.process_time if cpu_time else time.perf_counter), debug
    )


def run(output: Path, folder: Path, device: str, threads: int | None, clock: Clock) -> int:
    """Measures, writes the files, shows a table. UserError for a folder or device that cannot be used."""
    if not folder.is_dir():
        raise UserError(f"folder {folder}: there is no such folder")
    with _refusing():
        place = find_device(device)
    with _new_folder(output):
        with (
            Console(stderr=True).status("measuring") as status,
            _refusing(),
            quiet_transformers(),
            torch_threads(threads),
        ):
            measured = measure(folder, place, clock, tell=lambda what: status.update(f"measuring: {what}"))
        written = write(measured, output)
    Console(file=sys.stdout).print(two_columns([*_rows(measured), Row("written", ", ".join(map(str, written)))]))
    return 0


@contextmanager
def _new_folder(folder: Path) -> Iterator[None]:
    """The folder for what is measured; where nothing was, and it was not there before, it goes again."""
    there = os.path.exists(folder)  # Path.exists raises where a name is too long
    check_folder(folder)
    try:
        yield
    except BaseException:
        if not there:
            with suppress(OSError):  # not empty
                folder.rmdir()
        raise


@contextmanager
def _refusing() -> Iterator[None]:
    """What torch lacks or refuses, as an error of the user's."""
    try:
        yield
    except UserError:
        raise
    except ValueError as error:
        raise UserError(one_line(error)) from error
    except ModuleNotFoundError as error:
        raise UserError(f"calibrate needs {error.name}, which is not installed: pip install 'nearkv[torch]'") from error


def _rows(m: Measured) -> list[Row]:
    a, kernel = m.arithmetic, m.kernel
    how = "direct" if m.drive.direct else "buffered (page cache possible)"
    if m.drive.device_share is not None:
        how += f", {m.drive.device_share:.0%} of it from the device"
    if m.drive.read > m.copy_s:
        how += "; faster than memory copies, so a cache answered"
    calls = f"{a.card_layer_s * 1e3:.2f} ms a call, {kernel.job_s * 1e6:.0f} us a job"
    few = ", ".join(f"{rows}: {rate / 1e9:.2f}" for rows, rate in a.layer_rows if rows in (1, 2, 3, 4, 16))
    reads = f"weights by rows at {few} GB/s, {a.layer_s * 1e3:.2f} ms a layer beside them"
    return [
        Row("drive", f"reads {m.drive.read / 1e9:.2f} GB/s, writes {m.drive.write / 1e9:.2f} GB/s, {how}"),
        Row("memory", f"copies {m.copy_s / 1e9:.2f} GB/s"),
        Row("emulated kernel", f"{kernel.nbytes_s / 1e9:.3f} GB/s of K and V, {calls}"),
        Row("arithmetic", f"{a.flop_s / 1e9:.1f} GFLOP/s, {reads}"),
        Row("CPU attention", f"{a.attention_s / 1e9:.2f} GB/s of FP16 K and V"),
    ]
