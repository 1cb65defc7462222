# SPDX-License-Identifier: Apache-2.0
"""step_reader: K of the next visit is read before V of this one, across jobs; commands, tasks and visits of random
pieces against `model_walk`, through stalls of every channel."""

import cocotb
from clocked import cycles, reset, rng, settle
from walks import pieces, random_walk, steps, words_of
from wires import PIECE, TASK, VISIT

RATES = [(1, 1, 1, 1, 1), (0.9, 0.3, 0.9, 0.9, 0.9), (0.9, 0.9, 0.3, 0.9, 0.9), (0.9, 0.9, 0.9, 0.3, 0.9)]
RATES += [(0.9, 0.9, 0.9, 0.9, 0.2), (0.3, 0.7, 0.7, 0.7, 0.7)]
QUIET = dict.fromkeys(("piece_valid", "walk_idle", "kv_cmd_ready", "new_cmd_ready", "task_ready", "visit_ready"), 0)


def ints(fields):
    return {name: int(value) for name, value in fields.items()}


def visit_of(visit):
    """What the array is told of a visit."""
    last = visit[-1]
    told = {name: last[name] for name in ("job_last", "parity", "half_last", "chunks", "groups", "block")}
    return ints(told | {"slot": visit[0]["slot"], "tokens": sum(piece["tokens"] for piece in visit)})


class Order:
    """Follows the steps as they are read, and judges each by what could be read then."""

    def __init__(self, parted):
        self.k, self.v = iter([p for visit in parted for p in visit]), iter([p for visit in parted for p in visit])
        self.ahead = 0
        self.inside = None
        self.early = 0

    def judge(self, told, piece_valid, idle):
        is_v = told["is_v"]
        if self.inside is None:
            if is_v:
                assert self.ahead == 2 or (self.ahead == 1 and idle and not piece_valid), "V although K could be read"
                self.early += self.ahead == 1
            else:
                assert self.ahead < 2, "K of a third visit"
        else:
            assert is_v == self.inside, "a step was cut"
        self.inside = None if told["visit_last"] else is_v
        if told["visit_last"]:
            self.ahead += -1 if is_v else 1


async def run(dut, random, parted, rates, stop=None, pauses=0.0):
    """Reads all visits; `stop`: number of tasks after which to leave; `pauses`: how often the walk has nothing."""
    source, kv, new, take, array = rates
    waiting = [p for visit in parted for p in visit]
    order, tasks, told, count, pause, held = Order(parted), [], [], 2 * len(waiting), 0, None
    for _ in range(12_000):
        pause = max(pause - 1, random.randrange(40) if random.random() < pauses else 0)
        give = bool(waiting) and not pause and (held or random.random() < source)
        held = give
        idle = not give and (not waiting or pause > 3)
        kv_ready, new_ready, task_ready, visit_ready = (random.random() < rate for rate in (kv, new, take, array))
        dut.piece_valid.value, dut.walk_idle.value = bool(give), idle
        if give:
            dut.piece.value = PIECE.pack(**waiting[0])
        dut.kv_cmd_ready.value, dut.new_cmd_ready.value = kv_ready, new_ready
        dut.task_ready.value, dut.visit_ready.value = task_ready, visit_ready
        await settle()
        asked = [(int(x.value)) for x in (dut.kv_cmd_valid, dut.new_cmd_valid)]
        if int(dut.task_valid.value) and task_ready:
            task = TASK.unpack(int(dut.task_data.value))
            order.judge(task, bool(give), idle)
            assert asked == [not task["is_new"], task["is_new"]], "the wrong reader was asked"
            assert new_ready if task["is_new"] else kv_ready, "a task without its command"
            assert int(dut.cmd_word.value) == task["word"]
            assert int(dut.cmd_count.value) == words_of(task)
            tasks.append(task)
        else:
            assert not any(asked), "a command without its task"
        if int(dut.visit_valid.value) and visit_ready:
            told.append(VISIT.unpack(int(dut.visit.value)))
            assert not tasks[-1]["is_v"], "a visit was told with its V"
        if give and int(dut.piece_ready.value):
            waiting.pop(0)
            held = False
        await cycles(dut)
        if len(tasks) == (stop or count):
            break
    dut.piece_valid.value = 0
    return tasks, told, order


async def fresh(dut):
    await reset(dut, **QUIET)
    await cycles(dut)


def drawn(random, jobs, lengths=(1, 2, 16, 17, 127, 128, 129, 200)):
    walks = [random_walk(random, number % 2, lengths) for number in range(jobs)]
    return [visit for walk in walks for visit in pieces(walk)]


def by_kind(tasks, is_v):
    return [task for task in tasks if task["is_v"] == is_v]


@cocotb.test(timeout_time=3, timeout_unit="ms")
@cocotb.parametrize(rates=RATES)
async def order_of_the_steps(dut, rates):
    random = rng()
    await fresh(dut)
    parted = drawn(random, 14)
    tasks, told, order = await run(dut, random, parted, rates)
    want = [ints(task) for step in steps(parted) for task in step]
    if rates[0] == 1:
        assert tasks == want
        # Only the last V has no K before it.
        assert order.early == 1
    for is_v in (0, 1):
        assert by_kind(tasks, is_v) == by_kind(want, is_v)
    assert told == [visit_of(visit) for visit in parted]


@cocotb.test(timeout_time=3, timeout_unit="ms")
async def a_walk_that_has_nothing_lets_v_be_read(dut):
    """When no piece will come, V of the visits ahead is read; jobs that wait for it can end."""
    random = rng()
    await fresh(dut)
    parted = drawn(random, 20)
    tasks, told, order = await run(dut, random, parted, (0.9, 0.9, 0.9, 0.9, 0.9), pauses=0.05)
    want = [ints(task) for step in steps(parted) for task in step]
    for is_v in (0, 1):
        assert by_kind(tasks, is_v) == by_kind(want, is_v)
    assert told == [visit_of(visit) for visit in parted]
    assert order.early > 5


@cocotb.test(timeout_time=3, timeout_unit="ms")
async def visits_of_as_many_pieces_as_can_be(dut):
    """Segments of one token each: 128 pieces wait for the V of their visit."""
    random = rng()
    await fresh(dut)
    parted = pieces(random_walk(random, 1, (1,), 400, together=1))
    assert sum(len(visit) == 128 for visit in parted) > 1
    tasks, told, _ = await run(dut, random, parted, (1, 1, 1, 1, 1))
    assert tasks == [ints(task) for step in steps(parted) for task in step]
    assert told == [visit_of(visit) for visit in parted]


@cocotb.test(timeout_time=3, timeout_unit="ms")
async def a_reset_in_any_step(dut):
    random = rng()
    await fresh(dut)
    for _ in range(12):
        await run(dut, random, drawn(random, 6), (1, 1, 1, 1, 1), stop=random.randrange(1, 12))
        dut.rst.value = 1
        await cycles(dut)
        dut.rst.value = 0
        await settle()
        assert not int(dut.task_valid.value)
        parted = drawn(random, 3)
        tasks, told, _ = await run(dut, random, parted, (1, 1, 1, 1, 1))
        assert tasks == [ints(task) for step in steps(parted) for task in step]
        assert told == [visit_of(visit) for visit in parted]
