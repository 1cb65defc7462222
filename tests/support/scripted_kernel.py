# SPDX-License-Identifier: Apache-2.0
"""A kernel that answers what a test tells it to, without computing anything. It trusts the list that it reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from nearkv_driver.regmap import (
    CONTRACT_VERSION,
    IDENTITY,
    IDENTITY_MAGIC,
    JOB,
    LIST,
    NOT_APPLICABLE,
    REGMAP_HASH,
    STATUS,
    Implementation,
    Opcode,
    Status,
)
from nearkv_driver.sizes import output_nbytes, state_nbytes
from nearkv_emulation.kernel import Masters, Region

OK = {"segment": NOT_APPLICABLE, "page": NOT_APPLICABLE, "kind": NOT_APPLICABLE, "position": NOT_APPLICABLE}


def status(code: int, job: int = 0, **fields: int) -> dict[str, int]:
    """Values of a status block; what is not given is not applicable."""
    return {**OK, "detail": NOT_APPLICABLE, "code": code, "job": job, **fields}


@dataclass
class ScriptedKernel:
    """statuses: what attend jobs report, by index; jobs without one are ok. None leaves the status unwritten.

    identity: fields of the identity block that differ. `writes_output`: whether ok jobs fill their output with zeros.
    """

    statuses: Sequence[Mapping[str, int] | None] = ()
    identity: Mapping[str, int] = field(default_factory=dict)
    refusal: Mapping[str, int] | None = None
    writes_output: bool = True
    lists: int = 0

    def run(self, masters: Masters, kv: int, ctl: int, out: int) -> None:
        self.lists += 1
        header = LIST.unpack(_read(masters.ctl, ctl, LIST.nbytes))
        if self.refusal is not None:
            _write(masters.out, out, STATUS.pack(**self.refusal))
            return
        for i in range(header["jobs"]):
            job = JOB.unpack(_read(masters.ctl, ctl + LIST.nbytes + i * JOB.nbytes, JOB.nbytes))
            if job["opcode"] == Opcode.IDENTIFY:
                _write(masters.out, job["out_addr"], IDENTITY.pack(**{**_IDENTITY, **self.identity}))
                _write(masters.out, out, STATUS.pack(**status(Status.OK, i)))
                continue
            told = self.statuses[i] if i < len(self.statuses) else status(Status.OK, i)
            if told is None:
                continue
            if self.writes_output and job["out_addr"]:
                size = (state_nbytes if job["flags"] else output_nbytes)(job["rows"], job["head_size"])
                _write(masters.out, job["out_addr"], bytes(size))
            _write(masters.out, out + i * STATUS.nbytes, STATUS.pack(**told))


_IDENTITY = {
    "magic": IDENTITY_MAGIC,
    "version": CONTRACT_VERSION,
    "regmap_hash": REGMAP_HASH,
    "implementation": Implementation.MODEL,
    "lanes": 32,
    "rows_max": 64,
    "head_sizes": 0b111111,
    "element_formats": 1,
    "opcodes": 0b110,
    "block_tokens": 128,
    "tile_tokens": 16,
}


def _region(regions: Sequence[Region], address: int) -> Region:
    return next(r for r in regions if r.base <= address < r.base + len(r.memory))


def _read(regions: Sequence[Region], address: int, nbytes: int) -> bytes:
    region = _region(regions, address)
    return region.memory[address - region.base :][:nbytes].tobytes()


def _write(regions: Sequence[Region], address: int, data: bytes) -> None:
    region = _region(regions, address)
    region.memory[address - region.base :][: len(data)] = list(data)
