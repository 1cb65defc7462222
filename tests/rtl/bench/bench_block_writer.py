# SPDX-License-Identifier: Apache-2.0
"""block_writer: words, exponents of rows, and records of pages and steps for random tasks with errors, Inf and NaN,
against NumPy and CRC-32C, through stalls of both readers, of the records and of the array."""

import cocotb
import google_crc32c
import numpy as np
from clocked import cycles, reset, rng, settle
from nearkv_driver import regmap as rm
from walks import pieces, random_walk, steps
from wires import RECORD, TASK

RATES = [(1, 1, 1, 1), (0.4, 0.9, 0.9, 0.9), (0.9, 0.4, 0.9, 0.5), (0.9, 0.9, 0.5, 0.1)]
LENGTHS = (1, 1, 2, 15, 16, 17)
# records that may come after `record_ready` has fallen: see record_queue in read_side
SPARE = 8
QUIET = dict.fromkeys(("task_valid", "kv_valid", "new_valid", "k_release", "v_release", "record_ready"), 0)


def drawn_words(random, draw, task, trouble):
    """[(data, error)] of a task: halves with an exponent of their row, NaN in the padding, anything beside the rows."""
    row = task["tokens"] * task["chunks"]
    words = task["before"] + row + task["after"]
    halves = draw.integers(0, 2**16, (words, 32)).astype(np.uint16)
    inside = halves[task["before"] : task["before"] + row].reshape(task["tokens"], 32 * task["chunks"])
    # Finite, and small in most rows.
    inside &= 0xFFFF ^ 0x0400
    for number in range(task["tokens"]):
        keep = random.choice([0x83FF, 0x8FFF, 0xBFFF, 0xFFFF])
        inside[number] &= keep
        if random.random() < trouble:
            inside[number, random.randrange(inside.shape[1])] = random.choice([0x7C00, 0xFC00, 0x7E01])
    if task["half_last"]:
        inside[:, -16:] = 0x7E01
    halves[task["before"] : task["before"] + row] = inside.reshape(row, 32)
    return [(int.from_bytes(word.tobytes(), "little"), random.random() < trouble / 4) for word in halves]


class Expected:
    """What the module must leave, task by task."""

    def __init__(self):
        self.writes, self.tops, self.records = [], [], []
        self.half = [0, 0]
        self.pages = {}

    def add(self, task, words):
        if task["visit_first"]:
            self.step = {"error": 0, "nonfinite": 0, "words": 0}
            for name in ("error_new", "error_word", "error_words", "nonfinite_segment", "nonfinite_position"):
                self.step[name] = None
        is_v, chunks = task["is_v"], task["chunks"]
        if not words:
            self.record(task, None, None, True)
        for index, (data, error) in enumerate(words):
            self.word(task, index, data, error)
            row, chunk = divmod(index - task["before"], chunks)
            if 0 <= row < task["tokens"]:
                place = self.half[is_v] << 7 | task["slot"] + row
                self.writes.append((is_v, place << 3 | chunk, data))
                self.payload(task, data, place, chunk)
            self.ended(task, index, index == len(words) - 1)
        if task["visit_last"]:
            self.half[is_v] ^= 1

    def word(self, task, index, data, error):
        if error and not self.step["error"]:
            self.step |= {"error": 1, "error_new": task["is_new"], "error_word": task["word"] + index}
            self.step["error_words"] = self.step["words"]
        self.step["words"] += not task["is_new"]
        if task["checked"]:
            key = task["is_v"], (task["word"] + index) // 64
            self.pages[key] = self.pages.get(key, b"") + data.to_bytes(64, "little")

    def payload(self, task, data, place, chunk):
        """A word of a row: the largest exponent field of the row so far, at least 1."""
        halves = np.frombuffer(data.to_bytes(64, "little"), np.uint16)
        last = chunk == task["chunks"] - 1
        largest = int((halves[: 16 if last and task["half_last"] else 32] >> 10 & 31).max())
        self.top = max(self.top if chunk else 1, largest)
        if last:
            self.tops.append((task["is_v"], place, self.top))
        if largest == 31 and not self.step["nonfinite"]:
            position = task["block"] * rm.BLOCK_TOKENS + place % rm.BLOCK_TOKENS
            self.step |= {"nonfinite": 1, "nonfinite_segment": task["segment"], "nonfinite_position": position}

    def ended(self, task, index, last):
        at = task["word"] + index
        page_end = task["checked"] and at % 64 == 63
        if page_end:
            data = self.pages.pop((task["is_v"], at // 64))
            assert len(data) == rm.PAGE_BYTES
            # `page` is that of the first row, which lies in the page of the first word.
            self.record(task, google_crc32c.value(data), task["page"] + at // 64 - task["word"] // 64, last)
        elif last:
            self.record(task, None, None, True)

    def record(self, task, crc, page, last):
        end = last and task["visit_last"]
        if crc is not None or end:
            told = {"is_v": task["is_v"], "page_end": int(crc is not None), "crc": crc, "page": page}
            told |= {"segment": None if crc is None else task["segment"], "step_end": end, "job_last": task["job_last"]}
            self.records.append(told | self.step)


def differing(want, got):
    """Fields of a record in which the wires say something else than is expected; None: whatever."""
    return {name: (value, got[name]) for name, value in want.items() if value is not None and got[name] != value}


class Harness:
    def __init__(self, dut, random, rates):
        self.dut, self.random, self.rates = dut, random, rates
        self.writes, self.tops, self.records = [], [], []
        self.rows = [0, 0]
        self.ended, self.released = [0, 0], [0, 0]
        self.late, self.before = 0, None

    async def step(self, task, kv, new):
        """One cycle; whether the task has been taken."""
        dut, random = self.dut, self.random
        give_kv, give_new, room, leave = (random.random() < rate for rate in self.rates)
        give_kv, give_new = give_kv and bool(kv), give_new and bool(new)
        dut.task_valid.value = task is not None
        if task:
            dut.task_data.value = TASK.pack(**task)
        dut.kv_valid.value, dut.new_valid.value, dut.record_ready.value = give_kv, give_new, room
        if give_kv:
            dut.kv_data.value, dut.kv_error.value = kv[0]
        if give_new:
            dut.new_data.value, dut.new_error.value = new[0]
        # The array leaves a visit whose rows have all been written.
        releases = [leave and self.ended[v] > self.released[v] for v in (0, 1)]
        dut.k_release.value, dut.v_release.value = releases
        await settle()
        for v in (0, 1):
            self.released[v] += releases[v]
        if give_kv and int(dut.kv_ready.value):
            kv.pop(0)
        if give_new and int(dut.new_ready.value):
            new.pop(0)
        taken = task is not None and bool(int(dut.task_ready.value))
        if int(dut.word_valid.value):
            self.writes.append((int(dut.word_is_v.value), int(dut.word_addr.value), int(dut.word_data.value)))
        if int(dut.k_row.value) or int(dut.v_row.value):
            assert self.before is not None, "a row was told before its exponent was written"
            assert (int(dut.k_row.value), int(dut.v_row.value)) == (not self.before, self.before)
        else:
            assert self.before is None, "a row was not told"
        self.before = int(dut.top_is_v.value) if int(dut.top_valid.value) else None
        if int(dut.top_valid.value):
            self.tops.append((self.before, int(dut.top_addr.value), int(dut.top.value)))
        self.late = 0 if room else self.late
        if int(dut.record_valid.value):
            self.records.append(RECORD.unpack(int(dut.record.value)))
            self.late += not room
            assert self.late <= SPARE, "more records than the queue has room for"
            if self.records[-1]["step_end"]:
                self.ended[self.records[-1]["is_v"]] += 1
        await cycles(dut)
        return taken


async def fresh(dut):
    await reset(dut, **QUIET, kv_data=0, new_data=0)
    # Pipelines without a reset of their own run empty.
    await cycles(dut, 5)


def drawn(random, jobs, lengths=LENGTHS, count=None):
    walks = [random_walk(random, number % 2, lengths, count) for number in range(jobs)]
    parted = [visit for walk in walks for visit in pieces(walk)]
    return [{name: int(value) for name, value in task.items()} for step in steps(parted) for task in step]


async def run(dut, random, tasks, rates, trouble, stop=None):
    draw = np.random.default_rng(random.getrandbits(32))
    expected, harness, kv, new = Expected(), Harness(dut, random, rates), [], []
    for task in tasks:
        words = drawn_words(random, draw, task, trouble)
        expected.add(task, words)
        (new if task["is_new"] else kv).extend(words)
    waiting = list(tasks)
    for cycle in range(12_000):
        if await harness.step(waiting[0] if waiting else None, kv, new):
            waiting.pop(0)
        if cycle == stop or (not waiting and len(harness.records) == len(expected.records) and cycle > 10):
            break
    for _ in range(0 if stop else 6):
        await harness.step(None, kv, new)
    return expected, harness, len(kv) + len(new)


def judge(expected, harness, left):
    assert not left, "words were left"
    assert harness.writes == expected.writes
    assert harness.tops == expected.tops
    assert len(harness.records) == len(expected.records)
    for want, got in zip(expected.records, harness.records, strict=True):
        assert not differing(want, got)


@cocotb.test(timeout_time=3, timeout_unit="ms")
@cocotb.parametrize(rates=RATES)
async def words_rows_and_records(dut, rates):
    random = rng()
    await fresh(dut)
    tasks = drawn(random, 3)
    if rates[0] == 1:
        tasks += drawn(random, 1, (130,), 1)
    expected, harness, left = await run(dut, random, tasks, rates, 0.02)
    judge(expected, harness, left)
    assert sum(record["page_end"] for record in expected.records) > 5
    assert sum(record["nonfinite"] for record in expected.records) > 1
    assert sum(record["error"] for record in expected.records) > 1


@cocotb.test(timeout_time=3, timeout_unit="ms")
async def no_more_than_two_visits_of_a_kind_without_a_release(dut):
    random = rng()
    await fresh(dut)
    tasks = [task | {"checked": 0, "before": 0, "after": 0} for task in drawn(random, 12, (1, 3))]
    expected, harness, _ = await run(dut, random, tasks, (1, 1, 1, 0), 0, stop=200)
    # K, K, V, and the third K has no place.
    firsts = [number for number, task in enumerate(tasks) if task["visit_first"]]
    assert [record["is_v"] for record in harness.records if record["step_end"]] == [0, 0, 1]
    assert sum(task["tokens"] for task in tasks[: firsts[3]]) == len(harness.tops) > 0
    assert harness.writes == expected.writes[: len(harness.writes)]


@cocotb.test(timeout_time=3, timeout_unit="ms")
async def a_reset_in_any_cycle(dut):
    random = rng()
    await fresh(dut)
    for _ in range(4):
        await run(dut, random, drawn(random, 3), (1, 1, 1, 1), 0.2, stop=random.randrange(2, 60))
        for name, value in QUIET.items():
            getattr(dut, name).value = value
        dut.rst.value = 1
        # list_control holds everything behind the readers for 64 cycles; the pipeline needs four.
        await cycles(dut, 4)
        dut.rst.value = 0
        judge(*await run(dut, random, drawn(random, 1, (1, 17)), (1, 1, 1, 1), 0.02))
