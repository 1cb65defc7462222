# SPDX-License-Identifier: Apache-2.0
"""Lists of 64, 1, 17 and 64 tokens without reset between them: the fourth leaves what the first left.

Writes what memory held after each, and every transaction, to the file that NEARKV_TRANSACTIONS names, so that two
simulators can be compared.
"""

import hashlib
import json
import os
from pathlib import Path

import cocotb
from bench_nearkv_attend import same, small
from board import Board

from tests.support.jobs import comparable


@cocotb.test()
async def the_fourth_list_equals_the_first(dut):
    board = await Board.on(dut, clocks=1)
    told = []
    for tokens in (64, 1, 17, 64):
        image = small(11, tokens=tokens, rows=1)
        marks = {name: len(reads) for name, reads in board.reads.items()}
        written = len(board.writes)
        memory = await board.run(image)
        same(image, memory)
        transactions = {name: reads[marks[name] :] for name, reads in board.reads.items()}
        transactions["out"] = [(a, hashlib.sha256(d).hexdigest()) for a, d in board.writes[written:]]
        told.append({"memory": hashlib.sha256(memory.tobytes()).hexdigest(), "transactions": transactions})
        told[-1]["comparable"] = hashlib.sha256(comparable(image, memory).tobytes()).hexdigest()
    assert told[3]["comparable"] == told[0]["comparable"]
    for name in board.reads:
        assert told[3]["transactions"][name] == told[0]["transactions"][name]
    Path(os.environ["NEARKV_TRANSACTIONS"]).write_text(json.dumps(told))
