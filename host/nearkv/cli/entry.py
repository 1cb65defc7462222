# SPDX-License-Identifier: Apache-2.0
"""Entry point: typer parses, then the command's run is called outside typer, where errors become exit codes."""

from __future__ import annotations

import importlib.metadata
import logging
import os
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Annotated, NoReturn

import typer
from nearkv_driver.errors import DirectIoUnavailable, DriverError

from nearkv.cli import build, calibrate, doctor, generate, plan, sessions, xclbin, xrt_emulate
from nearkv.cli.exit_codes import BAD_INPUT, CARD_TROUBLE, CLOSED_OUTPUT, INTERRUPTED
from nearkv.cli.run import Run
from nearkv.errors import UserError, one_line

app = typer.Typer(
    name="nearkv",
    help="Text generation whose KV cache lies, and is attended to, on computational storage cards.",
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command(name="generate")(generate.command)
app.command(name="doctor")(doctor.command)
app.command(name="build")(build.command)
app.command(name="plan")(plan.command)
app.command(name="calibrate")(calibrate.command)
app.add_typer(xclbin.app, name="xclbin")
app.add_typer(sessions.app, name="sessions")
app.command(name="xrt-emulate", context_settings={"allow_interspersed_args": False})(xrt_emulate.command)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"nearkv {importlib.metadata.version('nearkv')}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _nearkv(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and end.")
    ] = False,
) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command (`sys.argv` unless given); returns the exit code."""
    _prepare_streams()
    previous = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    for number, handler in previous.items():
        if (number, handler) != (signal.SIGHUP, signal.SIG_IGN):  # as nohup leaves it
            signal.signal(number, _terminate)
    try:
        return _guarded(lambda: _parse_and_run(arguments), debug=False)
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def _parse_and_run(arguments: Sequence[str] | None) -> int:
    command = typer.main.get_command(app)
    outcome = command.main(
        args=None if arguments is None else list(arguments), prog_name="nearkv", standalone_mode=False
    )
    if isinstance(outcome, Run):
        return _guarded(outcome.call, debug=outcome.debug)
    sys.stdout.flush()
    return outcome if isinstance(outcome, int) else 0


def _guarded(call: Callable[[], int], *, debug: bool) -> int:
    """`call`'s exit code, or the one that stands for what it raised."""
    try:
        code = call()
        sys.stdout.flush()
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED
    except BrokenPipeError:
        _silence_stdout()
        return CLOSED_OUTPUT
    except (UserError, DirectIoUnavailable) as error:
        return _fail(error, BAD_INPUT, debug)
    except DriverError as error:
        return _fail(error, CARD_TROUBLE, debug)
    except OSError as error:  # the output cannot be written: every file of ours has its own errors
        _silence_stdout()
        return _fail(error, CARD_TROUBLE, debug, f"cannot write the output: {one_line(error)}")
    except Exception as error:
        if not hasattr(error, "format_message"):
            raise
        return _fail(error, BAD_INPUT, debug, error.format_message() + _refused(error))
    return code


def _refused(error: Exception) -> str:
    """The value of an option that has another type, where typer's message does not say it: the error behind it does."""
    tell = getattr(error.__cause__, "errors", None)
    values = [told["input"] for told in tell() if "input" in told] if callable(tell) else []
    return f" (it is {values[0]!r})" if values else ""


def _fail(error: BaseException, code: int, debug: bool, message: str | None = None) -> int:
    if debug:
        traceback.print_exception(error)
    text = one_line(error) if message is None else " ".join(message.split())
    typer.echo(f"nearkv: error: {text}", err=True)
    return code


def _prepare_streams() -> None:
    """Warnings as one line on stderr; a stream that was closed swallows what is written to it.

    Where the terminal's encoding lacks a character, a replacement is shown instead of an error raised.
    """
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 (it stays open to the end)
        reconfigure = getattr(getattr(sys, name), "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="replace")
    logging.basicConfig(level=logging.WARNING, format="nearkv: warning: %(message)s")


def _silence_stdout() -> None:
    """Python flushes stdout when it ends; without a reader that would be one more error."""
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, sys.stdout.fileno())
    os.close(devnull)


def _terminate(number: int, frame: FrameType | None) -> NoReturn:
    """SIGTERM and a terminal that closes unwind the stack: volumes close, temporary folders go, programs are ended."""
    raise SystemExit(128 + number)
