# SPDX-License-Identifier: Apache-2.0
"""What can go wrong on or beside a card; every error carries the data that a person needs to act on it.

User mistakes (a wrong value, an unknown URL) are ValueError or TypeError with the value and what is allowed.
"""

from __future__ import annotations

from collections.abc import Mapping


class DriverError(Exception):
    """Base of everything this package raises for device or storage trouble; `card` is the URL of the card."""

    def __init__(self, message: str, *, card: str = "") -> None:
        super().__init__(f"{card}: {message}" if card else message)
        self.card = card


class TransportUnavailable(DriverError):
    """The transport cannot work on this machine; `remedy` says what to do."""

    def __init__(self, message: str, *, card: str = "", remedy: str = "") -> None:
        super().__init__(f"{message}; {remedy}" if remedy else message, card=card)
        self.remedy = remedy


class BufferMisuse(DriverError):
    """A buffer was used as no card allows: freed, out of range, in the wrong bank, P2P memory written by the CPU."""


class OutOfDeviceMemory(DriverError):
    """A bank cannot hold the buffer; `needed` and `available` in bytes."""

    def __init__(self, message: str, *, card: str = "", bank: str = "", needed: int = 0, available: int = 0) -> None:
        super().__init__(message, card=card)
        self.bank, self.needed, self.available = bank, needed, available


class BuildMismatch(DriverError):
    """The kernel on the card is not the one this driver speaks to; `wanted` and `found` name both."""

    def __init__(self, what: str, *, card: str, wanted: object, found: object) -> None:
        super().__init__(f"{what}: the driver wants {wanted}, the card has {found}", card=card)
        self.what, self.wanted, self.found = what, wanted, found


class DeviceGone(DriverError):
    """A register reads all ones: the card has left the bus."""


class DeviceTimeout(DriverError):
    """A list did not end in time; `register` is CTRL's last value, `progress` the status of each job so far.

    elapsed_s: seconds of the machine; cycles: those of a simulated card's clock, else 0.
    """

    def __init__(
        self, message: str, *, card: str, elapsed_s: float, register: int, progress: tuple[str, ...], cycles: int = 0
    ) -> None:
        super().__init__(message, card=card)
        self.elapsed_s, self.register, self.progress, self.cycles = elapsed_s, register, progress, cycles


class LoadTimeout(DriverError):
    """A binary was not on the card in time; `path` is its file, `elapsed_s` seconds of the machine.

    The runtime may still be loading it: this process should end before the card is used again.
    """

    def __init__(self, message: str, *, card: str, path: str, elapsed_s: float) -> None:
        super().__init__(message, card=card)
        self.path, self.elapsed_s = path, elapsed_s


class JobError(DriverError):
    """The kernel refused or failed a job; `code` is the status code's name, `status` all its fields."""

    def __init__(self, message: str, *, card: str, code: str, job: int, status: Mapping[str, int]) -> None:
        super().__init__(message, card=card)
        self.code, self.job, self.status = code, job, dict(status)


class ReplyIncomplete(DriverError):
    """The list has ended, but the kernel left a status or an output unwritten: `job` is the first one."""

    def __init__(self, message: str, *, card: str, job: int) -> None:
        super().__init__(message, card=card)
        self.job = job


class StorageError(DriverError):
    """A read or write of a volume's file failed; `path`, `offset`, `nbytes` and `errno_name` say where and how."""

    def __init__(self, message: str, *, path: str, offset: int = 0, nbytes: int = 0, errno_name: str = "") -> None:
        super().__init__(f"{path}: {message}")
        self.path, self.offset, self.nbytes, self.errno_name = path, offset, nbytes, errno_name

    @property
    def no_room(self) -> bool:
        """Whether the file system is full, or what its user may have of it is used up."""
        return self.errno_name in ("ENOSPC", "EDQUOT")


class DirectIoUnavailable(StorageError):
    """The file system of `path` refuses O_DIRECT; `filesystem` names it."""

    def __init__(self, message: str, *, path: str, filesystem: str, errno_name: str) -> None:
        super().__init__(message, path=path, errno_name=errno_name)
        self.filesystem = filesystem


class RunFailed(DriverError):
    """The card's runtime says that a list did not end well, whatever its buffers hold; `state` is its word."""

    def __init__(self, message: str, *, card: str, state: str) -> None:
        super().__init__(message, card=card)
        self.state = state
