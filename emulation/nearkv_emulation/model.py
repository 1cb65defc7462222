# SPDX-License-Identifier: Apache-2.0
"""`ModelKernel`: docs/kernel-contract.md in NumPy, written to be read, with the same bytes out as the other kernels.

Shares no code with fpga/hls. Has no clock: status.cycles is 0.
"""

from __future__ import annotations

import numpy as np
from nearkv_driver.regmap import (
    BLOCK_TOKENS,
    CONTRACT_VERSION,
    HEAD_SIZES,
    IDENTITY,
    IDENTITY_MAGIC,
    JOB,
    LANES,
    LIST,
    MASTER_CTL,
    MASTER_KV,
    MASTER_OUT,
    NOT_APPLICABLE,
    REGMAP_HASH,
    ROWS_MAX,
    STATUS,
    TILE_TOKENS,
    WORD_BYTES,
    ElementFormat,
    Implementation,
    JobFlag,
    Opcode,
    Status,
    StatusFlag,
)

from nearkv_emulation.kernel import Masters
from nearkv_emulation.model_attend import Attention, read_q, read_state
from nearkv_emulation.model_checks import Fields, Windows, check_header, check_job, padded
from nearkv_emulation.model_descriptors import read_limits, read_segments
from nearkv_emulation.model_memory import Fault, Master
from nearkv_emulation.model_state import output_bytes, state_bytes


class ModelKernel:
    """The NumPy implementation of `nearkv_emulation.kernel.Kernel`; keeps nothing between runs."""

    def run(self, masters: Masters, kv: int, ctl: int, out: int) -> None:
        _List(masters, kv, ctl, out).run()


class _List:
    """One list being processed."""

    def __init__(self, masters: Masters, kv: int, ctl: int, out: int) -> None:
        self._kv = Master(MASTER_KV, masters.kv)
        self._ctl = Master(MASTER_CTL, masters.ctl)
        self._out = Master(MASTER_OUT, masters.out)
        self._registers = kv, ctl, out

    def run(self) -> None:
        ctl = self._registers[1] - self._registers[1] % WORD_BYTES
        try:
            raw = self._ctl.read(ctl, LIST.nbytes).tobytes()
            jobs, windows = check_header(raw, *self._registers)
        except Fault as fault:
            self._report(0, fault, job=NOT_APPLICABLE)
            return
        failed = False
        for index in range(jobs):
            if failed:
                self._status(index, code=Status.NOT_RUN, job=index)
                continue
            self._kv.beats = 0
            try:
                raw = self._ctl.read(ctl + LIST.nbytes + JOB.nbytes * index, JOB.nbytes).tobytes()
                flags = self._job(check_job(raw, windows), windows)
                failed = not self._status(index, code=Status.OK, job=index, flags=flags, beats=self._kv.beats)
            except Fault as fault:
                failed = True
                self._report(index, fault, job=index)

    def _job(self, job: Fields, windows: Windows) -> StatusFlag:
        """Does one checked job; returns the flags of its status. Raises Fault."""
        if job["opcode"] == Opcode.IDENTIFY:
            self._out.write(job["out_addr"], np.frombuffer(identity(), np.uint8))
            return StatusFlag(0)
        limits = read_limits(self._ctl, job)
        segments = read_segments(self._ctl, job, windows)
        state = read_state(self._ctl, job)
        attention = Attention(job, limits, read_q(self._ctl, job), state)
        attention.walk(self._kv, self._ctl, segments)
        self._write(job, attention)
        return StatusFlag.SATURATED if attention.saturated else StatusFlag(0)

    def _write(self, job: Fields, attention: Attention) -> None:
        d_pad = padded(job["head_size"])
        new_nbytes = job["new_tokens"] * d_pad * 2
        if job["tail_k_addr"]:
            new = [self._ctl.read(job[name], new_nbytes).copy() for name in ("new_k_addr", "new_v_addr")]
            for name, rows in zip(("tail_k_addr", "tail_v_addr"), new, strict=True):
                self._out.write(job[name], rows)
        if job["state_out"]:
            self._out.write(job["state_out"], state_bytes(attention.state, d_pad))
        if job["out_addr"]:
            form = state_bytes if job["flags"] & JobFlag.RAW else output_bytes
            self._out.write(job["out_addr"], form(attention.state, d_pad))

    def _report(self, index: int, fault: Fault, job: int) -> None:
        names = ("code", "segment", "page", "kind", "position", "detail", "address")
        self._status(index, job=job, beats=self._kv.beats, **{name: int(getattr(fault, name)) for name in names})

    def _status(self, index: int, **fields: int) -> bool:
        """Writes the status of a job; False when the out master cannot."""
        words = dict.fromkeys(("segment", "page", "kind", "position", "detail"), NOT_APPLICABLE) | fields
        status = np.frombuffer(STATUS.pack(**words), np.uint8)
        base = self._registers[2]
        try:
            self._out.write(base - base % WORD_BYTES + index * STATUS.nbytes, status)
        except Fault:
            return False
        return True


def identity() -> bytes:
    """The identity block of this implementation."""
    return IDENTITY.pack(
        magic=IDENTITY_MAGIC,
        version=CONTRACT_VERSION,
        regmap_hash=REGMAP_HASH,
        implementation=Implementation.MODEL,
        lanes=LANES,
        rows_max=ROWS_MAX,
        head_sizes=2 ** len(HEAD_SIZES) - 1,
        element_formats=sum(1 << element_format for element_format in ElementFormat),
        opcodes=sum(1 << opcode for opcode in Opcode),
        block_tokens=BLOCK_TOKENS,
        tile_tokens=TILE_TOKENS,
        build=0,
    )
