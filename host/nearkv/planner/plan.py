# SPDX-License-Identifier: Apache-2.0
"""A plan: does it fit, how fast, what bounds it, what it wears and costs. Brings the parts of the model together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from nearkv_driver.regmap import HEAD_SIZES, NEW_TOKENS_MAX, ROWS_MAX

from nearkv.planner.hardware import Card, Drive, Gpu, Host
from nearkv.planner.memory import Places, advice, place, plain_drives
from nearkv.planner.prefill import Prefill, prefill
from nearkv.planner.step import GPU, Step, simulate
from nearkv.planner.system import (
    GPU_ONLY,
    HOST_DRAM,
    HOST_DRAM_GPU,
    NEAR,
    OWN_DRIVES,
    POLICIES,
    Policy,
    System,
    Work,
)
from nearkv.planner.traffic import kv_nbytes, link_down, link_up, offload_read, shares, written_per_token, x_nbytes
from nearkv.planner.units import MONEY, NUMBER, TIME, Limits

# Shares of heads and sequences whose X may be kept: powers of two, as HILOS rounds.
ALPHAS = (0.0, 0.125, 0.25, 0.5, 1.0)
_DAY = 86400.0


@dataclass(frozen=True)
class Prices:
    """What turns watts and hardware into money: years over which it is written off, and a kilowatt-hour."""

    years: float = 3.0
    kwh: float = 0.12

    def __post_init__(self) -> None:
        Limits(NUMBER, 0.0, 100.0, above=True).check(self.years, "years")
        Limits(MONEY, 0.0, 1000.0).check(self.kwh, "price of a kWh")


@dataclass(frozen=True)
class Plan:
    """What was asked and what came out. Times in seconds, sizes in bytes; None where a figure does not apply.

    tokens_per_s: new tokens of all sequences while decoding. request_tokens_per_s: prompts and all steps included.
    components: seconds per step in which each part works; they overlap. life_years: of the most worn kind of drive when
    requests follow one another without a pause. usd_per_million: output tokens, prompts included.
    """

    policy: Policy
    work: Work
    system: System
    alpha: float
    places: Places
    advice: tuple[str, ...]
    step: Step
    prefill: Prefill
    components: Mapping[str, float]
    bottleneck: str
    tokens_per_s: float
    request_tokens_per_s: float
    kv_nbytes: float
    kv_per_drive: float | None
    link_nbytes: float
    media_nbytes: float
    watts: float
    joules_per_token: float
    written_per_day: float | None
    life_years: float | None
    usd: float
    usd_per_million: float
    prices: Prices

    @property
    def fits(self) -> bool:
        return self.places.fits and not kernel_refuses(self.work, self.policy)

    @property
    def without_power(self) -> tuple[str, ...]:
        """Parts in use whose power is not given: they count as 0 W."""
        return tuple(part.name for part in _parts(self.system, self.policy) if not part.power)

    @property
    def without_price(self) -> tuple[str, ...]:
        """Parts in use whose price is not given: they count as 0 USD. A CPU that computes is part of the host."""
        gpu = self.system.gpu
        parts = _parts(self.system, self.policy)
        return tuple(part.name for part in parts if not part.price and not (part is gpu and gpu.in_host_memory))


def make_plan(system: System, work: Work, policy: Policy, prices: Prices | None = None, *, trace: bool = False) -> Plan:
    """The plan of one policy; alpha is chosen where the policy leaves it open."""
    alpha, places = choose_alpha(system, work, policy)
    step = simulate(system, work, policy, alpha, places, trace=trace)
    first = prefill(system, work, policy, alpha, places)
    tokens_per_s = work.batch * work.tokens_per_step / step.seconds
    request_s = first.seconds + work.output / work.tokens_per_step * step.seconds
    request_rate = work.batch * work.output / request_s
    watts = _watts(system, policy, step)
    written, life = _wear(system, work, policy, alpha, request_s)
    usd = _usd(system, policy)
    prices = prices or Prices()
    per_s = usd / (prices.years * TIME.units["years"]) + watts / 3.6e6 * prices.kwh
    stored, x = kv_nbytes(work, policy, alpha, work.context), x_nbytes(work, alpha, work.context)
    drives = _drives(system, policy)
    components = grouped(step.busy)
    return Plan(
        policy=policy,
        work=work,
        system=system,
        alpha=alpha,
        places=places,
        advice=(*kernel_refuses(work, policy), *advice(system, work, policy, places)),
        step=step,
        prefill=first,
        components=components,
        bottleneck=max(components, key=lambda part: components[part]),
        tokens_per_s=tokens_per_s,
        request_tokens_per_s=request_rate,
        kv_nbytes=stored,
        kv_per_drive=_per_drive(system, work, policy, alpha, stored, drives),
        link_nbytes=_link(system, work, policy, alpha),
        media_nbytes=(stored - x) * (1 - places.resident) + x if drives else 0.0,
        watts=watts,
        joules_per_token=watts / tokens_per_s,
        written_per_day=written,
        life_years=life,
        usd=usd,
        usd_per_million=per_s / request_rate * 1e6,
        prices=prices,
    )


def compare(
    system: System, work: Work, policy: Policy, prices: Prices | None = None, *, trace: bool = False
) -> list[Plan]:
    """The plan and those of all other ways to keep K and V, the given policy first; `trace`: of its step. All get the
    same work, drafts included."""
    first = make_plan(system, work, policy, prices, trace=trace)
    return [first, *(make_plan(system, work, one, prices) for one in rivals(policy))]


def rivals(policy: Policy) -> list[Policy]:
    """All other ways, with the same format of K and V."""
    return [replace(p, element=policy.element) for p in POLICIES.values() if p.name != policy.name]


def kernel_refuses(work: Work, policy: Policy) -> list[str]:
    """What of the model this project's kernel does not take, a sentence each; nothing where it does not attend."""
    if policy.place != NEAR or policy.kernel_rate is not None:
        return []
    model, told = work.model, []
    if model.head_size not in HEAD_SIZES:
        told.append(f"the kernel takes no heads of {model.head_size}, only of {', '.join(map(str, HEAD_SIZES))}")
    if model.group > ROWS_MAX:
        told.append(f"the kernel takes {ROWS_MAX} query heads per KV head at most; the model has {model.group}")
    elif model.group * work.queries > ROWS_MAX or work.queries > NEW_TOKENS_MAX:
        most = min(ROWS_MAX // model.group, NEW_TOKENS_MAX) - 1
        told.append(f"the kernel takes {ROWS_MAX} query rows and {NEW_TOKENS_MAX} new tokens per KV head at most; "
                    f"{model.group} query heads x (1 + {work.drafts} drafts) are {model.group * work.queries}: "
                    f"at most {most} drafts")  # fmt: skip
    return told


def notes(system: System, work: Work, policy: Policy) -> list[str]:
    """What is odd about the question but changes no time."""
    model, last, told = work.model, work.context + work.output, []
    many = system.host.chassis(system.cards) if policy.place == NEAR else 1
    if many > 1:
        told.append(f"{system.cards} cards need {many} chassis of {system.host.slots:g} slots: all are in the cost, "
                    "but this plan has them share one uplink and knows nothing of their own power")  # fmt: skip
    if model.positions and last > model.positions:
        told.append(f"context {work.context} and {work.output} new tokens go beyond the {model.positions} positions "
                    f"that {model.name} is made for: sizes and times hold, what it would write may not")  # fmt: skip
    if model.window and last > model.window:
        told.append(f"layers of {model.name} that look back {model.window} tokens read less than all: this plan is on "
                    "the safe side, as it takes all layers to read everything")  # fmt: skip
    return told


def choose_alpha(system: System, work: Work, policy: Policy) -> tuple[float, Places]:
    """The share of X-cache: the policy's, or the fastest that fits. X must be smaller than K and V."""
    if policy.alpha is not None:
        return policy.alpha, place(system, work, policy, policy.alpha)
    model = work.model
    useful = policy.place == NEAR and model.x_nbytes_per_token() < model.kv_nbytes_per_token(policy.element)
    options = []
    for alpha in ALPHAS if useful else ALPHAS[:1]:
        places = place(system, work, policy, alpha)
        seconds = simulate(system, work, policy, alpha, places).seconds
        options.append((not places.fits, seconds, alpha, places))
    best = min(options, key=lambda option: option[:3])
    return best[2], best[3]


def grouped(busy: Mapping[str, float]) -> dict[str, float]:
    """Lanes of cards that do not all do the same become one: the busiest counts."""
    found: dict[str, float] = {}
    for lane, seconds in busy.items():
        name = lane.partition(" of ")[0]
        name = "drives" if name == "drive" else name
        found[name] = max(seconds, found.get(name, 0.0))
    return found


def _link(system: System, work: Work, policy: Policy, alpha: float) -> float:
    """Bytes between where K and V lie and where the rest is computed, per step."""
    model = work.model
    if policy.place == NEAR:
        pairs = sum(share.cards * share.pairs for share in shares(system, work, policy, alpha))
        near = pairs * sum(f(model, work.queries, policy) for f in (link_down, link_up))
        return model.layers * near + x_nbytes(work, alpha, work.context)
    if policy.place == GPU_ONLY:
        return 0.0
    return work.batch * model.layers * offload_read(model, work.context, policy.element)


def _drives(system: System, policy: Policy) -> int:
    if policy.place == NEAR:
        return system.cards
    return 0 if policy.place in (GPU_ONLY, HOST_DRAM, HOST_DRAM_GPU) else plain_drives(system, policy)[1]


def _per_drive(system: System, work: Work, policy: Policy, alpha: float, stored: float, drives: int) -> float | None:
    if not drives:
        return None
    if policy.place != NEAR:
        return stored / drives
    dealt = shares(system, work, policy, alpha)
    most = max((share.pairs * share.tokens for share in dealt), default=0.0)
    whole = sum(share.cards * share.pairs * share.tokens for share in dealt)
    x = x_nbytes(work, alpha, work.context)
    return (stored - x) * (most / whole if whole else 0.0) + x / drives


def _parts(system: System, policy: Policy) -> tuple[Gpu | Host | Card | Drive, ...]:
    """What draws power and was bought for a way to keep K and V."""
    both = (system.gpu, system.host)
    if policy.place == NEAR:
        return (*both, system.card)
    if not _drives(system, policy):
        return both
    return (*both, system.drive if policy.drives == OWN_DRIVES else system.card)


def _watts(system: System, policy: Policy, step: Step) -> float:
    gpu = system.gpu
    share = min(1.0, step.busy[GPU] / step.seconds)
    storage = system.cards * system.card.power if policy.place == NEAR else 0.0
    if policy.place != NEAR and _drives(system, policy):
        drive, count = plain_drives(system, policy)
        storage = count * drive.power
    return system.host.power + gpu.idle_power + share * (gpu.power - gpu.idle_power) + storage


def _usd(system: System, policy: Policy) -> float:
    cards = policy.place == NEAR or (_drives(system, policy) and policy.drives != OWN_DRIVES)
    chassis = system.host.chassis(system.cards) * system.host.chassis_price
    storage = system.cards * system.card.price + chassis if cards else 0.0
    if not cards and _drives(system, policy):
        storage = system.drives * system.drive.price
    return system.host.price + system.gpu.price + storage


def _wear(
    system: System, work: Work, policy: Policy, alpha: float, request_s: float
) -> tuple[float | None, float | None]:
    """(bytes written per drive and day, years until the rating is used up)."""
    drives = _drives(system, policy)
    if not drives:
        return None, None
    drive = system.card.drive if policy.place == NEAR else plain_drives(system, policy)[0]
    written = request_nbytes(work, policy, alpha) * work.batch / drives / request_s * _DAY
    return written, drive.endurance / written / 365.25 if drive.endurance else None


def request_nbytes(work: Work, policy: Policy, alpha: float) -> float:
    """What one request writes: its prompt in whole pages, its output as spills do."""
    whole = replace(policy, spill=1 << 20)
    model = work.model
    return work.context * written_per_token(model, whole, alpha) + work.output * written_per_token(model, policy, alpha)
