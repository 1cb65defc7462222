# SPDX-License-Identifier: Apache-2.0
"""Fields that share a port, as in a Verilog concatenation, and the words that several modules exchange. No test of its
own."""

from __future__ import annotations

from nearkv_emulation.model_memory import Fault


class Wires:
    """Fields side by side, the first highest: {name: bits}."""

    def __init__(self, **bits: int) -> None:
        self.bits = bits

    def pack(self, **values: int) -> int:
        """All fields; a negative value is cut to its bits, any other must fit."""
        assert values.keys() == self.bits.keys(), values.keys() ^ self.bits.keys()
        word = 0
        for name, bits in self.bits.items():
            value = int(values[name])
            assert value < 1 << bits, f"{name}: {value:#x} has more than {bits} bits"
            word = word << bits | value & (1 << bits) - 1
        return word

    def unpack(self, word: int) -> dict[str, int]:
        values = {}
        for name, bits in reversed(self.bits.items()):
            values[name] = word & (1 << bits) - 1
            word >>= bits
        return values


_PLACE = {"is_new": 1, "checked": 1, "tokens": 8, "slot": 7, "block": 14, "before": 6, "after": 6}
_PLACE |= {"segment": 18, "page": 19}
# segment_walk -> step_reader
PIECE = Wires(
    **{"visit_first": 1, "visit_last": 1, "job_last": 1, "parity": 1, "half_last": 1, "chunks": 4, "groups": 3},
    **_PLACE,
    **{"k_word": 58, "v_word": 58},
)
# step_reader -> block_writer
TASK = Wires(
    **{"is_v": 1, "visit_first": 1, "visit_last": 1, "job_last": 1, "half_last": 1, "chunks": 4},
    **_PLACE,
    **{"word": 58},
)
# step_reader -> array_sequencer
VISIT = Wires(job_last=1, parity=1, half_last=1, chunks=4, groups=3, block=14, slot=7, tokens=8)
# array_sequencer -> tile_top
UNIT = Wires(group_last=1, half=1, weights=1, parity=1, group=3, slot=7, tokens=8)
# block_writer -> step_judge
RECORD = Wires(
    **{"is_v": 1, "page_end": 1, "crc": 32, "segment": 18, "page": 19, "step_end": 1, "job_last": 1},
    **{"error": 1, "error_new": 1, "error_word": 58, "error_words": 15},
    **{"nonfinite": 1, "nonfinite_segment": 18, "nonfinite_position": 21, "words": 15},
)
FAULT = Wires(address=64, detail=32, position=32, kind=32, page=32, segment=32, code=32)


def fault_word(fault: Fault) -> int:
    """A fault of the model on the wires."""
    return FAULT.pack(**{name: int(getattr(fault, name)) for name in FAULT.bits})


def fault_of(fault: Fault) -> dict[str, int]:
    """The fields of a fault of the model as they are on the wires."""
    return FAULT.unpack(fault_word(fault))
