# SPDX-License-Identifier: Apache-2.0
"""One attend job in memory, laid out as the store lays it out: extents of 128 tokens, K then V. For benchmarks only."""

from __future__ import annotations

import math

import google_crc32c
import numpy as np
from nearkv_driver import regmap as rm
from nearkv_emulation.kernel import Kernel, Masters, Region

BASE = 0x40_0000_0000
EXTENT_TOKENS = rm.BLOCK_TOKENS


class KernelImage:
    """Memory with a list of one job over `tokens` random tokens; `run` processes it, again each time."""

    def __init__(self, head_size: int, rows: int, tokens: int, checksums: bool, seed: int = 1) -> None:
        if tokens % EXTENT_TOKENS or head_size % rm.LANE_PAD:
            raise ValueError(
                f"tokens = {tokens} and head_size = {head_size} are multiples of {EXTENT_TOKENS} and {rm.LANE_PAD} here"
            )
        rng = np.random.default_rng(seed)
        self.checksums = checksums
        self.q = rng.normal(size=(rows, head_size)).astype(np.float32)
        self.k, self.v = (rng.normal(size=(tokens, head_size)).astype(np.float16) for _ in range(2))
        extents = tokens // EXTENT_TOKENS
        pairs = np.stack([x.reshape(extents, -1) for x in (self.k, self.v)], axis=1)
        self._kv = pairs.reshape(-1).view(np.uint8).copy()
        self._out_nbytes = rows * 4 * head_size + -(-rows * 8 // 64) * 64
        self._kv_base = BASE
        self._ctl_base = BASE + len(self._kv)
        self._ctl = self._control(head_size, rows, tokens)
        self._out_base = self._ctl_base + len(self._ctl)
        self._out = np.zeros(rm.STATUS.nbytes + self._out_nbytes, np.uint8)
        self._finish(rows, tokens, head_size)
        self._masters = Masters(
            [Region(self._kv_base, self._kv)],
            [Region(self._ctl_base, self._ctl)],
            [Region(self._out_base, self._out)],
        )

    def _control(self, head_size: int, rows: int, tokens: int) -> np.ndarray:
        """Room for list, job, limits, q, segments and checksums; the last two are filled in here."""
        extents, extent_nbytes = tokens // EXTENT_TOKENS, EXTENT_TOKENS * head_size * 2
        self._limits = rm.LIST.nbytes + rm.JOB.nbytes
        self._q = self._limits + 64
        self._segments = self._q + self.q.nbytes
        self._crcs = self._segments + extents * rm.SEGMENT.nbytes
        pages = extent_nbytes // rm.PAGE_BYTES
        ctl = np.zeros(-(-(self._crcs + extents * pages * 8) // 64) * 64, np.uint8)
        for i in range(extents):
            start = 2 * i * extent_nbytes
            segment = rm.SEGMENT.pack(
                tokens=EXTENT_TOKENS,
                first_position=i * EXTENT_TOKENS,
                k_addr=self._kv_base + start,
                v_addr=self._kv_base + start + extent_nbytes,
                crc_addr=self._ctl_base + self._crcs + i * pages * 8 if self.checksums else 0,
            )
            at = self._segments + i * rm.SEGMENT.nbytes
            ctl[at : at + len(segment)] = np.frombuffer(segment, np.uint8)
            both = self._kv[start : start + 2 * extent_nbytes].reshape(2, pages, rm.PAGE_BYTES)
            crcs = [[google_crc32c.value(page.tobytes()) for page in x] for x in both]
            at = self._crcs + i * pages * 8
            ctl[at : at + pages * 8] = np.array(crcs, np.uint32).T.reshape(-1).view(np.uint8)
        return ctl

    def _finish(self, rows: int, tokens: int, head_size: int) -> None:
        fraction, exponent = math.frexp(head_size**-0.5 * math.log2(math.e))
        header = rm.LIST.pack(
            magic=rm.LIST_MAGIC,
            version=rm.CONTRACT_VERSION,
            jobs=1,
            kv_base=self._kv_base,
            ctl_base=self._ctl_base,
            out_base=self._out_base,
            kv_window=self._kv_base,
            kv_window_nbytes=len(self._kv),
            ctl_window=self._ctl_base,
            ctl_window_nbytes=len(self._ctl),
            out_window=self._out_base,
            out_window_nbytes=len(self._out),
        )
        job = rm.JOB.pack(
            opcode=rm.Opcode.ATTEND,
            head_size=head_size,
            rows=rows,
            query_tokens=1,
            scale_mantissa=round(fraction * 2**24),
            scale_exponent=exponent,
            segments=tokens // EXTENT_TOKENS,
            q_addr=self._ctl_base + self._q,
            limits_addr=self._ctl_base + self._limits,
            segments_addr=self._ctl_base + self._segments,
            out_addr=self._out_base + rm.STATUS.nbytes,
        )
        limits = np.array([0, tokens], np.uint32).view(np.uint8)
        for at, data in ((0, header + job), (self._limits, limits), (self._q, self.q.view(np.uint8).reshape(-1))):
            self._ctl[at : at + len(data)] = np.frombuffer(bytes(data), np.uint8)

    def run(self, kernel: Kernel) -> None:
        kernel.run(self._masters, self._kv_base, self._ctl_base, self._out_base)

    def attention(self, kernel: Kernel) -> np.ndarray:
        """Runs the job; O / L [rows, head_size]. Raises RuntimeError unless its status is `ok`."""
        self._out[:] = 0xA5
        self.run(kernel)
        code = rm.STATUS.unpack(self._out[: rm.STATUS.nbytes].tobytes())["code"]
        if code != rm.Status.OK:
            raise RuntimeError(f"the kernel answered {rm.Status(code).name}")
        floats = self._out[rm.STATUS.nbytes :].view(np.float32)
        o = floats[: self.q.size].reshape(self.q.shape)
        return o / floats[self.q.size :: 2][: len(self.q), None]
