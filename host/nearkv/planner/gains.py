# SPDX-License-Identifier: Apache-2.0
"""What each idea of this program gives over HILOS on the same cards: one after another, in the model.

Each step keeps the ones before. Only what changes no bit of the result counts as lossless; drafts rest on an assumed
acceptance. X-cache is HILOS' idea and not built here, so the program as it stands is a row of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from nearkv.planner.plan import Plan, make_plan
from nearkv.planner.system import HILOS, NEARKV, ONE, UNITS, Policy, System, Work

DRAFTS = 4


@dataclass(frozen=True)
class Idea:
    """A change of policy and work; `lossless`: no bit of the result changes against FP16 K and V."""

    name: str
    policy: Callable[[Policy], Policy]
    drafts: int = 0
    lossless: bool = True


IDEAS = (
    Idea("no re-sent rows", lambda p: replace(p, transfers=ONE, io_element=4)),
    Idea("read-ahead", lambda p: replace(p, read_ahead=True)),
    Idea("resident pages", lambda p: replace(p, resident=True)),
    Idea("RTL kernel", lambda p: replace(p, kernel_rate=None)),
    Idea("tokens split", lambda p: replace(p, split_tokens=True, spill=UNITS)),
    Idea(f"{DRAFTS} drafts", lambda p: p, drafts=DRAFTS),
    Idea("INT8 K and V", lambda p: replace(p, element=1), drafts=DRAFTS, lossless=False),
)


@dataclass(frozen=True)
class Gain:
    """`speeds`: tokens per second over HILOS after each idea; `bound`: what holds the last lossless one without drafts.

    as_built: this program as it is, no X-cache, no drafts. as_built_drafts: the same with drafts."""

    model: str
    context: int
    hilos: Plan
    speeds: tuple[float, ...]
    as_built: float
    as_built_drafts: float
    bound: str

    def step(self, idea: int) -> float:
        """The factor that an idea gives on top of those before it."""
        return self.speeds[idea] / (self.speeds[idea - 1] if idea else 1.0)


def gain(system: System, work: Work) -> Gain:
    """All ideas for one work."""
    base = make_plan(system, work, HILOS)
    policy, speeds, bound = HILOS, [], ""
    for idea in IDEAS:
        policy = idea.policy(policy)
        plan = make_plan(system, replace(work, drafts=idea.drafts), policy)
        speeds.append(plan.tokens_per_s / base.tokens_per_s)
        if not idea.drafts:
            bound = plan.bottleneck
    built = [make_plan(system, replace(work, drafts=drafts), NEARKV).tokens_per_s for drafts in (0, DRAFTS)]
    return Gain(
        work.model.name,
        work.context,
        base,
        tuple(speeds),
        built[0] / base.tokens_per_s,
        built[1] / base.tokens_per_s,
        bound,
    )


def gains(system: System, works: Iterable[Work]) -> list[Gain]:
    """One for each work."""
    return [gain(system, work) for work in works]
