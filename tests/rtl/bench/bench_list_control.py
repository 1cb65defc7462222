# SPDX-License-Identifier: Apache-2.0
"""list_control with job_turns: random lists of jobs that end well or fail at any place, with everything around it as
late as it may be. Each job gets its status once and in order, the first fault ends the list, the next list is clean."""

import cocotb
from clocked import cycles, reset, rng, settle
from list_plans import PLACES, drawn, drawn_fault, expected
from nearkv_driver import regmap as rm
from wires import fault_word

QUIET = ("list_start", "prepare_enters", "prepare_walkable", "prepare_done", "prepare_faulty", "walk_ready")
QUIET += ("walk_failed", "job_sound", "judge_faulty", "bins_done", "finish_done", "finish_faulty", "clamped")
QUIET += ("readers_idle", "w_ready", "w_failed")


class Around:
    """What stands around the module, from job_prepare to axi_write, as far as its signals go."""

    def __init__(self, dut, random, plan, pace):
        self.dut, self.random, self.plan, self.pace = dut, random, plan, pace
        self.statuses, self.accepted, self.done, self.cycle = [], 0, 0, 0
        self.prepared = self.walked = self.finished = self.cleared = 0
        # The job that is being finished; whether the answer to the status that is being written will be an error.
        self.finishing, self.writing = None, None
        self.refused = self.failed = self.refused_before = self.quiet_before = False
        # of either parity, once a job of it has taken the tables
        self.loaded = [None, None]
        self.ends, self.spans, self.flying = [], [], False
        self.clear()

    def clear(self):
        self.prepare = None
        self.walk, self.judge, self.lost = [], None, False
        self.bins = []

    def soon(self):
        return self.random.random() < self.pace

    def drive_prepare(self, inputs):
        """job_prepare: a header, or a job that is checked, waits for its turn, is loaded and ends."""
        now = self.prepare
        inputs |= {"prepare_done": 0, "prepare_enters": 0}
        if now is None or not self.soon():
            return
        if now["stage"] == "header":
            inputs |= {"prepare_done": 1, "prepare_faulty": self.plan.header is not None}
            inputs["prepare_fault"] = fault_word(self.plan.header) if self.plan.header else 0
            inputs["jobs"] = len(self.plan.jobs)
            self.prepare = None
            return
        job = self.plan.jobs[now["index"]]
        if now["stage"] == "check":
            if job.fails == "prepare":
                self.end(inputs, job.fault)
            else:
                now["stage"] = "wait"
        elif now["stage"] == "load":
            inputs["prepare_walkable"] = 1
            now["stage"] = "end"
        elif now["stage"] == "end":
            self.end(inputs, job.fault if job.fails == "late" else None)

    def end(self, inputs, fault):
        inputs |= {"prepare_done": 1, "prepare_faulty": fault is not None}
        inputs["prepare_fault"] = fault_word(fault) if fault else 0
        self.refused |= fault is not None
        self.prepare = None

    async def step(self, start=False):
        dut, random, inputs = self.dut, self.random, {"list_start": start}
        for name, pointer in zip(("kv", "ctl", "out"), self.plan.pointers, strict=True):
            inputs[f"{name}_register"] = pointer if start else random.getrandbits(64)
        self.drive_prepare(inputs)
        self.drive_walk(inputs)
        self.drive_end(inputs)
        for name, value in inputs.items():
            getattr(dut, name).value = value
        await settle()
        # `enters` answers `free` and `alone` in the same cycle
        entered = None
        waits = self.prepare is not None and self.prepare["stage"] == "wait"
        if waits and int(dut.prepare_free.value) and (int(dut.prepare_alone.value) or not self.job(self.prepare).wait):
            written = len(self.statuses)
            assert self.prepare["index"] - written <= 1, "tables of a job that has not been written"
            if int(dut.prepare_alone.value):
                assert self.prepare["index"] == written, "alone although earlier jobs have not been written"
                assert self.writing is None, "alone although a status has not been answered"
            dut.prepare_enters.value = 1
            self.prepare["stage"] = "load"
            entered = self.prepare["index"]
            await settle()
        self.sample(inputs)
        if entered is not None:
            self.loaded[entered % 2] = False
        self.refused_before = self.refused
        self.quiet_before = inputs["readers_idle"] and inputs["w_idle"]
        await cycles(dut)
        self.cycle += 1

    def job(self, prepared):
        return self.plan.jobs[prepared["index"]]

    def drive_walk(self, inputs):
        """Steps of the jobs that the walk has are judged in order, and their bins follow, both as late as they may."""
        # A walk that has failed takes no other job.
        last = self.plan.jobs[self.walked - 1] if self.walked else None
        ready = self.soon() and (last is None or last.fails != "walk")
        inputs |= {"walk_ready": ready, "bins_done": 0, "beats": self.now().beats}
        if self.walked and self.plan.jobs[self.walked - 1].fails == "walk" and not self.cleared and self.soon():
            self.lost = True
            job = self.plan.jobs[self.walked - 1]
            inputs |= {"walk_failed": 1, "walk_failed_word": job.fault.address // 64}
        # The visit of a job that cannot be walked to its end is closed after the walk has told so.
        early = self.walk and self.plan.jobs[self.walk[0]].fails == "walk" and not self.lost
        if self.walk and not early and self.judge is None and self.soon():
            job = self.plan.jobs[self.walk.pop(0)]
            # The end of a visit that was cut short may look sound, and what a refused job reads may be at fault.
            self.judge = {"step": "faulty", "late": self.random.choice(["faulty", "sound", "silent"])}.get(
                job.fails, "sound"
            )
            if self.judge == "faulty":
                fault = job.fault if job.fails == "step" else drawn_fault(self.random, "step")
                inputs |= {"judge_faulty": 1, "judge_fault": fault_word(fault)}
            inputs["job_sound"] = self.judge == "sound"
        if self.bins and self.bins[0] < self.prepared and self.bins[0] <= self.finished + 1 and self.soon():
            self.bins.pop(0)
            inputs["bins_done"] = 1

    def now(self):
        """The job that ends next."""
        return self.plan.jobs[min(self.finished, len(self.plan.jobs) - 1)]

    def drive_end(self, inputs):
        inputs |= {"finish_done": 0, "finish_faulty": 0, "readers_idle": self.soon()}
        if self.finishing is not None and self.soon():
            job = self.plan.jobs[self.finishing]
            bad = job.fails == "finish"
            self.failed |= bad
            # Other words of the job may still be on their way.
            self.flying = bad
            inputs |= {"finish_done": 1, "finish_faulty": bad, "finish_fault": fault_word(job.fault) if bad else 0}
            self.finishing = None
        if self.writing is not None and self.soon():
            self.failed |= self.writing
            self.writing = None
        self.flying &= not self.soon()
        idle = self.writing is None and not self.flying
        inputs |= {"w_ready": self.soon(), "w_idle": idle, "w_failed": self.failed}

    def sample(self, inputs):
        dut = self.dut
        for parity in range(2):
            want = self.loaded[parity]
            assert want is None or str(dut.loaded.value)[1 - parity] == "01"[want], "the array must not begin, or may"
        if int(dut.prepare_list.value):
            self.prepare = {"stage": "header"}
        if int(dut.prepare_job.value):
            assert self.prepare is None, "two jobs are prepared"
            assert not self.refused, "a job is prepared after one has been refused"
            index = int(dut.prepare_index.value)
            assert index == self.prepared < len(self.plan.jobs)
            dut.prepare_walkable.value = 0
            self.prepare = {"stage": "check", "index": index}
        if inputs["prepare_done"] and self.accepted and not inputs["prepare_faulty"]:
            self.loaded[self.prepared % 2] = True
            self.prepared += 1
        if int(dut.walk_valid.value) and inputs["walk_ready"]:
            index = self.walked
            assert int(dut.walk_parity.value) == index % 2
            assert not self.refused_before, "a job is handed over that has been refused"
            self.walked += 1
            self.walk.append(index)
            self.bins.append(index)
        if int(dut.finish_start.value):
            assert int(dut.job_taken.value)
            assert self.judge == "sound", "a job is finished that has not been judged"
            assert int(dut.finish_parity.value) == self.finished % 2
            self.finishing, self.judge = self.finished, None
            self.finished += 1
            dut.job_sound.value = 0
        else:
            assert not int(dut.job_taken.value)
        self.accepted += int(dut.list_accepted.value)
        self.done += int(dut.list_done.value)
        if int(dut.w_valid.value) and inputs["w_ready"]:
            assert self.writing is None
            assert not int(dut.flush.value)
            index = len(self.statuses)
            fields = rm.STATUS.unpack(int(dut.w_data.value).to_bytes(64, "little"))
            self.statuses.append((int(dut.w_word.value), fields))
            job = self.plan.jobs[index] if index < len(self.plan.jobs) else None
            self.writing = job is not None and job.fails == "status" and fields["code"] == rm.Status.OK
            self.ends.append(self.cycle)
        if int(dut.w_clear.value):
            self.failed = False
        if self.prepare and "index" in self.prepare:
            assert int(dut.prepare_index.value) == self.prepare["index"], "the number changed before the job was ready"
        if int(dut.clear.value):
            assert int(dut.flush.value)
            assert self.cleared or self.quiet_before, "cleared while words are owed to the readers or the writer"
            self.cleared += 1
            self.clear()
            for name in ("job_sound", "judge_faulty", "walk_failed", "prepare_walkable"):
                getattr(dut, name).value = 0

    async def run(self, stop=None):
        """The whole list, from START to DONE."""
        dut = self.dut
        dut.w_idle.value = 1
        dut.clamped.value = 0
        started = self.cycle
        await self.step(start=True)
        for _ in range(8000):
            # Each status is taken with the flag of its job.
            index = len(self.statuses)
            if index < len(self.plan.jobs):
                flag = self.plan.jobs[index].saturated
                dut.clamped.value = flag << index % 2 | self.random.randrange(2) << (index + 1) % 2
            await self.step()
            if self.done or self.cycle == stop:
                break
        self.spans = [b - a - 1 for a, b in zip([started, *self.ends], self.ends, strict=False)]


def judge(plan, around):
    want = expected(plan)
    assert len(around.statuses) == len(want), around.statuses
    for (at, fields), (place, got), span in zip(want, around.statuses, around.spans, strict=True):
        assert at == place
        differing = {name: (int(value), got[name]) for name, value in fields.items() if got[name] != value}
        assert not differing, (place, plan.jobs)
        ran = fields["code"] != rm.Status.NOT_RUN
        assert got["cycles"] == (span if ran else 0)
    assert around.accepted == around.done == 1
    codes = [fields["code"] for _, fields in want]
    failed = any(code not in (rm.Status.OK, rm.Status.NOT_RUN) for code in codes) or rm.Status.NOT_RUN in codes
    # Everything behind the readers is cleared for long enough after a fault, and only then.
    assert around.cleared == (64 if failed else 0)


async def fresh(dut):
    await reset(dut, **dict.fromkeys(QUIET, 0), w_idle=1, jobs=0, beats=0)
    await cycles(dut)


@cocotb.test(timeout_time=5, timeout_unit="ms")
@cocotb.parametrize(pace=[1.0, 0.6, 0.25])
async def lists(dut, pace):
    random = rng()
    await fresh(dut)
    seen = set()
    for _ in range(40):
        plan = drawn(random)
        around = Around(dut, random, plan, pace)
        await around.run()
        judge(plan, around)
        broken = next((job for job in plan.jobs if job.fails), None)
        seen.add("header" if plan.header else broken.fails if broken else None)
    assert seen == {*PLACES, "header", None}


@cocotb.test(timeout_time=5, timeout_unit="ms")
async def a_reset_in_any_cycle(dut):
    random = rng()
    await fresh(dut)
    for _ in range(25):
        await Around(dut, random, drawn(random), 0.7).run(stop=random.randrange(1, 120))
        for name in QUIET:
            getattr(dut, name).value = 0
        dut.w_idle.value, dut.rst.value = 1, 1
        await cycles(dut)
        dut.rst.value = 0
        await settle()
        assert not any(int(x.value) for x in (dut.w_valid, dut.list_done, dut.flush, dut.finish_start, dut.prepare_job))
        plan = drawn(random)
        around = Around(dut, random, plan, 0.7)
        await around.run()
        judge(plan, around)
