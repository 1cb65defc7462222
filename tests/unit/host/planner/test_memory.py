# SPDX-License-Identifier: Apache-2.0
"""What does not fit, or what the kernel does not take, is said with what would help."""

from __future__ import annotations

import pytest
from nearkv.kvstore import KVStore
from nearkv.layout import ModelLayout
from nearkv.planner.memory import STAGING_LEAST, tail_nbytes
from nearkv.planner.models import ModelShape, find_model
from nearkv.planner.plan import compare, make_plan
from nearkv.planner.report import verdict
from nearkv.planner.system import HILOS, IN_GPU, NEARKV, POLICIES, Work

from tests.support.planning import changed, needs_simpy, plan, system

pytestmark = needs_simpy


@pytest.mark.parametrize(("memory", "context"), [(16.5e9, 128), (17.45e9, 2048)])
def test_no_room_for_activations_and_runtime_does_not_fit(memory: float, context: int) -> None:
    """Weights of 16.06 GB: once the runtime's 1 GB does not fit beside them, once activations of a prompt do not."""
    at = changed(system(), "gpu", memory=memory)
    found = plan("llama-3-8b", context, IN_GPU, at, batch=1)
    assert not found.fits
    assert "GPU memory lacks" in found.advice[0]
    roomy = changed(system(), "gpu", memory=24e9)
    assert plan("llama-3-8b", 2048, IN_GPU, roomy, batch=1).fits


@pytest.mark.parametrize(
    ("heads", "kv_heads", "head_size", "told"),
    [
        (32, 8, 512, "the kernel takes no heads of 512, only of 64, 80"),
        (71, 1, 64, "64 query heads per KV head at most"),
    ],
)
def test_what_the_kernel_does_not_take_does_not_fit(heads: int, kv_heads: int, head_size: int, told: str) -> None:
    work = Work(ModelShape("m", 4, 4096, heads, kv_heads, head_size, 14336, 32000), 4096)
    near, *others = compare(system(), work, NEARKV)
    assert not near.fits
    assert told in near.advice[0]
    assert verdict([near, *others]) == "It does not fit as asked."
    assert all(other.fits for other in others if other.policy.name != IN_GPU.name)


@pytest.mark.parametrize(("group", "drafts", "most"), [(8, 8, 7), (1, 63, None), (9, 7, 6), (64, 1, 0), (8, 7, None)])
def test_more_rows_than_a_job_takes_do_not_fit(group: int, drafts: int, most: int | None) -> None:
    """The store refuses such a call; group x (1 + drafts) rows of one KV head are one job."""
    shape = ModelShape("m", 4, 4096, 2 * group, 2, 64, 14336, 32000)
    found = make_plan(system(), Work(shape, 4096, drafts=drafts), NEARKV)
    assert found.fits == (most is None)
    if most is not None:
        assert f"{group} query heads x (1 + {drafts} drafts) are {group * (1 + drafts)}" in found.advice[0]
        assert found.advice[0].endswith(f": at most {most} drafts")
        assert make_plan(system(), Work(shape, 4096, drafts=most), NEARKV).fits
    assert make_plan(system(), Work(shape, 4096, drafts=drafts), HILOS).fits, "not this project's kernel"


def test_what_would_help_helps() -> None:
    found = plan("opt-175b", 262144, at=system(2), batch=8)
    assert [need.place for need in found.places.needs if not need.fits] == ["each drive"]
    cards = int(found.advice[0].split("about ")[1].split(" cards")[0])
    assert plan("opt-175b", 262144, at=system(cards), batch=8).fits


def test_pages_that_fit_in_card_memory_are_not_read() -> None:
    found = plan("smollm2-135m", 4096)
    assert found.places.resident == 1
    assert found.components["drives"] < 0.1 * found.components["kernel"] + 1e-3
    assert found.media_nbytes == 0


def test_advice_on_host_memory_is_about_what_lies_there() -> None:
    small = changed(system(), "host", dram=10e9)
    assert plan(at=small).advice[0].endswith(" of host memory or a smaller batch")
    assert plan(at=small, policy=POLICIES["host-dram"]).advice[0].endswith(" of host memory, or K and V on drives")


@pytest.mark.parametrize("model", ["smollm2-135m", "llama-3-8b"])
def test_tails_take_what_the_store_takes(model: str) -> None:
    """On cards, and in host memory with the copy of a unit that is being written."""
    shape = find_model(model)
    stored = ModelLayout(model, shape.layers, shape.heads, shape.kv_heads, shape.head_size)
    with KVStore.open(stored, ["sw_emu:0?dram=512M&io=buffered"]) as store:
        before = store.stats()
        for _ in range(4):
            store.add_sequence()
        after = store.stats()
        rows = next(iter(store._sequences.values())).tail.rows
    needs = {need.place: need.used for need in plan(model, 4096, at=system(1), batch=4).places.needs}
    assert needs["card memory"] - STAGING_LEAST == after.cards[0].dram_nbytes - before.cards[0].dram_nbytes
    unit = stored.unit_tokens * stored.kv_bytes_per_token
    assert tail_nbytes(Work(shape, 4096, 4), NEARKV) == 4 * (rows.nbytes + unit)


def test_nothing_waits_where_nothing_is_spilled() -> None:
    base = system()
    for policy in (POLICIES["host-dram"], IN_GPU):
        need = next(n for n in plan("llama-3-8b", 1024, policy, base).places.needs if n.place == "host memory")
        kv = 16 * 1088 * 131072 if policy.name == "host-dram" else 0
        assert need.used == base.host.runtime + kv
