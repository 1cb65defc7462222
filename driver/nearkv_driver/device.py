# SPDX-License-Identifier: Apache-2.0
"""One open card: runs job lists on the kernel and turns its answers into results or typed errors.

Polling, time limits and identity live here, once for every transport; registers in `kernel_registers`, poison in
`message_memory`. One list at a time, one thread at a time; the next list can be prepared while one runs. It stores
nothing and knows no sequence.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Self

from nearkv_driver.commands import AttendJob, Identity, Result
from nearkv_driver.decode import decode, decode_identity, progress
from nearkv_driver.encode import Message, encode, encode_identify
from nearkv_driver.errors import BufferMisuse, DeviceTimeout, DriverError
from nearkv_driver.kernel_registers import KernelRegisters
from nearkv_driver.message_memory import MessageMemory
from nearkv_driver.plan import plan
from nearkv_driver.registry import open_transport
from nearkv_driver.regmap import CTRL_DONE, STATUS
from nearkv_driver.time_limit import TimeLimit, Watch
from nearkv_driver.traffic import Traffic
from nearkv_driver.transport import Buffer, Bytes, CardInfo, Transport
from nearkv_driver.windows import Windows

# What took from when to when, on the device's clock: "link" (bytes between host and card) or "kernel" (START to DONE).
Record = Callable[[str, float, float], None]


@dataclass(frozen=True, eq=False)
class Prepared:
    """A list that lies in card memory and has not been started; `limit` holds where `wait` is given none."""

    message: Message
    memory: MessageMemory
    limit: TimeLimit


@dataclass(frozen=True, eq=False)
class Ticket:
    """A started list that has not been waited for."""

    message: Message
    memory: MessageMemory
    limit: TimeLimit
    began_s: float


class NearDevice:
    """A card whose kernel this driver speaks to. Use as a context manager, or call `close`.

    After DeviceGone or DeviceTimeout the card's state is not known: every later call raises DriverError that says so.
    Close the device and open it again.
    """

    def __init__(
        self, transport: Transport, *, timeout_s: float | None, clock: Callable[[], float], record: Record | None = None
    ) -> None:
        """Use `open`. `clock` gives seconds; the wall-clock limit is measured on it."""
        self._transport = transport
        self._timeout_s = timeout_s
        self._clock = clock
        self._record = record
        self.info: CardInfo = transport.info()
        self.url = self.info.url
        self._registers = KernelRegisters(transport, self.url)
        self._windows = Windows.of(self.info)
        self._traffic = Traffic()
        self._pending: Ticket | None = None
        self._unusable = ""
        # Two, so that one list can be prepared while another runs.
        self._memory = (MessageMemory(transport), MessageMemory(transport))
        self.identity: Identity = self._identify()

    @classmethod
    def open(
        cls,
        url_or_transport: str | Transport,
        *,
        timeout_s: float | None = None,
        clock: Callable[[], float] = time.monotonic,
        record: Record | None = None,
    ) -> Self:
        """Opens the card and checks that its kernel keeps the contract of this driver.

        Raises ValueError for a bad URL, TransportUnavailable, BuildMismatch naming both values. `timeout_s` is the
        time limit of a list, in seconds of the machine, where `wait` is given none: 60, or for a simulated card that
        counts cycles so many that its limit in cycles comes first. `record` is told what link and kernel did when.
        """
        if timeout_s is not None and timeout_s <= 0:
            raise ValueError(f"timeout_s = {timeout_s}; it must be above 0")
        transport = open_transport(url_or_transport) if isinstance(url_or_transport, str) else url_or_transport
        try:
            return cls(transport, timeout_s=timeout_s, clock=clock, record=record)
        except BaseException:
            transport.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def traffic(self) -> Traffic:
        """A copy of the counters."""
        return replace(self._traffic)

    def alloc(self, nbytes: int, *, p2p: bool = False) -> Buffer:
        """A buffer in the bank of the kernel's masters; `p2p` for pages that a drive writes."""
        self._require_usable()
        return self._transport.alloc(nbytes, self.info.masters["kv"], p2p)

    def upload(self, buffer: Buffer, data: Bytes, offset: int = 0) -> None:
        """Writes `data` into the buffer's device memory over the link; counted."""
        self._require_usable()
        self._traffic.upload_nbytes += self._put(buffer, data, offset)

    def upload_checksums(self, buffer: Buffer, data: Bytes, offset: int = 0) -> None:
        """`upload` for checksums that belong to streamed pages; counted apart."""
        self._traffic.checksum_nbytes += self._put(buffer, data, offset)

    def attend(self, jobs: Sequence[AttendJob], timeout_s: float | None = None) -> list[Result]:
        """`submit` and `wait`; no jobs are no work."""
        if not jobs:
            return []
        return self.wait(self.submit(jobs), timeout_s)

    def submit(self, jobs: Sequence[AttendJob]) -> Ticket:
        """Starts one list; TypeError or ValueError for jobs that the kernel would refuse, before any device work."""
        self._require_free()
        return self.start(self.prepare(jobs))

    def prepare(self, jobs: Sequence[AttendJob]) -> Prepared:
        """Encodes a list and puts it into card memory, also while another one runs; raises as `submit` does.

        There is room for one list beside the one in flight: preparing another replaces one that was not started.
        """
        self._require_usable()
        planned = plan(jobs)
        memory = self._memory[self._pending is not None and self._pending.memory is self._memory[0]]
        ctl_address, out_address = memory.reserve(planned.nbytes, planned.reply_nbytes)
        message = encode(
            jobs,
            kv_base=ctl_address,  # any address of the bank will do, and some transports take those of buffers only
            ctl_address=ctl_address,
            out_address=out_address,
            windows=self._windows,
            planned=planned,
        )
        self._send(message, memory)
        return Prepared(message, memory, TimeLimit.of(self.info, jobs, self._timeout_s))

    def start(self, prepared: Prepared) -> Ticket:
        """Starts a prepared list; the one before must have been waited for."""
        self._require_free()
        # In flight from before START on: whatever interrupts this call, `abandon` knows of the list.
        self._pending = ticket = Ticket(prepared.message, prepared.memory, prepared.limit, self._clock())
        try:
            self._go(prepared.message)
        except BaseException:
            if not self._registers.started():
                self._pending = None
            raise
        self._traffic.lists += 1
        self._traffic.jobs += len(prepared.message.jobs)
        return ticket

    def wait(self, ticket: Ticket, timeout_s: float | None = None) -> list[Result]:
        """Results in the order of the jobs.

        Raises JobError for the first job that failed, ReplyIncomplete, DeviceTimeout, DeviceGone.
        """
        self._require_usable()
        if ticket is not self._pending:
            raise ValueError("this ticket is not the list in flight")
        reply = self._finish(ticket, timeout_s)
        self._traffic.up_payload += ticket.message.reply_payload_nbytes
        self._traffic.up_overhead += ticket.message.reply_overhead_nbytes
        results = decode(ticket.message, reply, self.url)
        self._traffic.kv_beats += sum(r.beats for r in results)
        self._traffic.kernel_cycles += sum(r.cycles for r in results)
        self._traffic.saturated_jobs += sum(r.saturated for r in results)
        return results

    def abandon(self) -> None:
        """Waits for the list in flight, if there is one, and drops its reply: what a caller does whose `wait` was
        interrupted, so that the card is free again. Trouble makes the device unusable and is not raised."""
        if self._pending is None or self._why_unusable():
            return
        try:
            self._finish(self._pending, None)
        except DriverError as error:
            self._unusable = self._why_unusable() or f"the card failed ({error})"
        except BaseException:
            self._unusable = "a list was interrupted and its end not waited for"
            raise

    def close(self) -> None:
        """Frees everything; may be called again. A list in flight is abandoned."""
        self._unusable = "the device is closed"
        self._transport.close()

    def _put(self, buffer: Buffer, data: Bytes, offset: int) -> int:
        began_s, nbytes = self._clock() if self._record else 0.0, memoryview(data).nbytes
        buffer.write(data, offset)
        buffer.sync_to_device(nbytes, offset)
        self._tell("link", began_s)
        return nbytes

    def _tell(self, what: str, began_s: float) -> None:
        if self._record is not None:
            self._record(what, began_s, self._clock())

    def _identify(self) -> Identity:
        memory = self._memory[0]
        ctl_address, out_address = memory.reserve(1, 1)
        message = encode_identify(
            kv_base=ctl_address, ctl_address=ctl_address, out_address=out_address, windows=self._windows
        )
        self._send(message, memory)
        self._go(message)
        limit = TimeLimit.of(self.info, (), self._timeout_s)
        reply = self._finish(Ticket(message, memory, limit, self._clock()), None)
        self._traffic.up_overhead += message.reply_nbytes
        return decode_identity(reply, self.url)

    def _send(self, message: Message, memory: MessageMemory) -> None:
        began_s = self._clock() if self._record else 0.0
        memory.send(message)
        self._traffic.down_payload += message.payload_nbytes
        self._traffic.down_overhead += message.overhead_nbytes + message.reply_nbytes
        self._tell("link", began_s)

    def _go(self, message: Message) -> None:
        self._registers.start(message.kv_base, message.ctl_address, message.out_address)

    def _finish(self, ticket: Ticket, timeout_s: float | None) -> bytes:
        """Waits for DONE and returns the reply. An interrupted wait leaves the list in flight."""
        watch = Watch(ticket.limit if timeout_s is None else replace(ticket.limit, wall_s=timeout_s))
        while not (register := self._registers.control()) & CTRL_DONE:
            elapsed_s = self._clock() - ticket.began_s
            if watch.over(elapsed_s):
                raise self._timed_out(ticket, watch, elapsed_s, register)
            try:
                self._transport.pause(watch.pause_s(elapsed_s))
            except DriverError as error:
                self._unusable = f"the card failed ({error})"
                raise
        self._pending = None
        self._tell("kernel", ticket.began_s)
        self._registers.go_on()
        began_s = self._clock() if self._record else 0.0
        reply = ticket.memory.receive(ticket.message.reply_nbytes)
        self._tell("link", began_s)
        return reply

    def _timed_out(self, ticket: Ticket, watch: Watch, elapsed_s: float, register: int) -> DeviceTimeout:
        self._unusable = "a list did not end in time"
        jobs = max(1, len(ticket.message.jobs))
        lines = progress(ticket.memory.receive(jobs * STATUS.nbytes), jobs)
        ended = sum(not line.endswith("not ended") for line in lines)
        return DeviceTimeout(
            f"{self.info.unit}: no end after {watch.passed(elapsed_s)}: CTRL = {register:#x}, "
            f"{ended} of {jobs} jobs ended; close the device and open it again",
            card=self.url,
            elapsed_s=elapsed_s,
            cycles=watch.cycles,
            register=register,
            progress=lines,
        )

    def _why_unusable(self) -> str:
        return self._unusable or ("the card has left the bus" if self._registers.gone else "")

    def _require_usable(self) -> None:
        if why := self._why_unusable():
            raise DriverError(f"{why}; open it again", card=self.url)

    def _require_free(self) -> None:
        self._require_usable()
        if self._pending is not None:
            raise BufferMisuse("a list is in flight; wait for it first", card=self.url)
