# SPDX-License-Identifier: Apache-2.0
"""Puts a binary on a card, for a limited time: XRT has no limit of its own. Knows no errors of XRT, and no card.

XRT's call cannot be ended, so it runs in a thread that is left behind when the time is over. pyxrt keeps the
interpreter's lock while it loads; there the limit is noticed when XRT returns.
"""

from __future__ import annotations

import threading
from contextlib import ExitStack
from pathlib import Path

from nearkv_driver.errors import LoadTimeout
from nearkv_driver.work_threads import Latch
from nearkv_driver.xrt.api import XrtDevice


def load_within(limit_s: float, device: XrtDevice, path: Path, card: str, closing: ExitStack) -> None:
    """`closing` is what closes the device. LoadTimeout when the time is over, else what `load` raises.

    A device that XRT still works on must not be closed: when the wait ends early, by the limit or Ctrl-C, `closing` is
    emptied and the thread closes the device after the load.
    """
    load = _Load(device, path)
    thread = threading.Thread(target=load.run, name=f"load {path}", daemon=True)
    try:
        thread.start()
        ended = load.ended.wait(limit_s)
    except RuntimeError:  # no thread can be started
        raise
    except BaseException:  # Ctrl-C, which may come before `start` has returned
        if load.leave():
            closing.pop_all()
        raise
    if not ended and load.leave():
        closing.pop_all()
        raise LoadTimeout(
            f"{path} is not on the card after {limit_s:g} s; XRT's call goes on: end this process, read dmesg, and "
            "reset the card (xbutil reset) if it happens again",
            card=card,
            path=str(path),
            elapsed_s=limit_s,
        )
    load.finish()


class _Load:
    """One call of `load`. The device belongs to whoever waits, after `leave` to the thread."""

    def __init__(self, device: XrtDevice, path: Path) -> None:
        self._device, self._path = device, path
        self._lock = threading.Lock()
        self._over = self._left = False
        self._error: BaseException | None = None
        self.ended = Latch()

    def run(self) -> None:
        try:
            self._device.load(self._path)
        except BaseException as error:
            self._error = error
        with self._lock:
            self._over, left = True, self._left
        if left:
            self._device.close()
        self.ended.set()

    def leave(self) -> bool:
        """False where the load has just ended after all: then nothing changes hands."""
        with self._lock:
            self._left = not self._over
            return self._left

    def finish(self) -> None:
        """Raises what `load` has raised."""
        self.ended.wait()
        error, self._error = self._error, None  # no cycle through its traceback: objects of XRT would live on in it
        if error is not None:
            try:
                raise error
            finally:
                del error
