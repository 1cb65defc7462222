# SPDX-License-Identifier: Apache-2.0
"""Quota and eviction: a volume never grows beyond what it may; what goes to make room was unused for longest."""

from __future__ import annotations

import errno
import gc
import time
from pathlib import Path

import pytest
from nearkv.errors import UserError
from nearkv.kvstore import KVStore
from nearkv.volume_errors import QuotaExceeded
from nearkv_driver.errors import StorageError
from nearkv_driver.syscalls import SystemCalls
from nearkv_emulation.storage_faults import Fails, FaultySyscalls

from tests.support.stores import Mirror, layout, urls

CARDS = 2
EXTENT = layout().layers * layout().extent_nbytes  # of one sequence on one of two cards, one KV head each


def opened(folder: Path, options: str, calls: FaultySyscalls | None = None) -> Mirror:
    return Mirror(KVStore.open(layout(), urls(CARDS, folder, kernel="model", options=options), syscalls=calls))


def grown(mirror: Mirror, name: str, tokens: int = 256) -> int:
    sequence = mirror.add(name)
    mirror.append([sequence], tokens)
    mirror.store.flush()
    return sequence


def test_a_quota_is_kept_costs_no_token_and_says_what_it_is(tmp_path: Path) -> None:
    quota = 4 * EXTENT
    mirror = opened(tmp_path, f"&quota={quota}")
    with mirror.store as store:
        first, second = grown(mirror, "a"), grown(mirror, "b")
        with pytest.raises(QuotaExceeded, match=rf"quota of {quota} bytes.*{EXTENT} bytes needed.*0 free.*evict=lru"):
            mirror.append([second], 64)
        for sequence in (first, second):
            mirror.check_rows(sequence)
            mirror.query([sequence])
        assert all((tmp_path / f"card{i}" / "data-000000.pages").stat().st_size <= quota for i in range(CARDS))
        store.free(first)
        store.delete("a")  # its space is free: the same call works
        mirror.append([second], 64)
        store.flush()
        mirror.check_rows(second)


def test_a_smaller_quota_than_before_keeps_what_is_there(tmp_path: Path) -> None:
    mirror = opened(tmp_path, "")
    with mirror.store:
        grown(mirror, "a", 600)
    mirror = opened(tmp_path, f"&quota={EXTENT}")
    with mirror.store as store:
        assert store.length(store.open_sequence("a")) == 600


@pytest.mark.parametrize("short", ["quota", "ENOSPC", "EDQUOT"])
def test_the_sequence_unused_for_longest_goes(tmp_path: Path, short: str) -> None:
    calls = FaultySyscalls(SystemCalls())
    options = "&evict=lru" + (f"&quota={6 * EXTENT}" if short == "quota" else "")
    mirror = opened(tmp_path, options, calls)
    with mirror.store as store:
        for name in ("a", "b"):
            store.free(grown(mirror, name))
        third = grown(mirror, "c")
        store.free(store.open_sequence("a"))  # used again: now "b" is the oldest
        if short != "quota":
            calls.faults = [Fails("allocate", getattr(errno, short), last=None)]
            while all(card.volume.free_nbytes >= EXTENT for card in store._cards):
                mirror.append([third], 32)  # preallocated space comes first
        mirror.append([third], 128)
        store.flush()
        assert store.names() == ("a", "c")
        assert store.stats().evicted == 1
        mirror.check_rows(third)
        mirror.query([third])
    with opened(tmp_path, "").store as store:
        assert store.names() == ("a", "c")
        assert store.length(store.open_sequence("a")) == 256


def test_a_clock_that_is_set_back_changes_no_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each time it is asked it tells an earlier time; once it told one in the far future."""
    now = 4 * 10**18

    def earlier() -> int:
        nonlocal now
        now -= 10**15
        return now

    monkeypatch.setattr(time, "time_ns", earlier)
    for name in "abc":
        with opened(tmp_path, f"&quota={8 * EXTENT}&evict=lru").store as store:
            grown(Mirror(store), name)
    with opened(tmp_path, f"&quota={8 * EXTENT}&evict=lru").store as store:
        store.free(store.open_sequence("a"))
    mirror = opened(tmp_path, f"&quota={8 * EXTENT}&evict=lru")
    with mirror.store as store:
        grown(mirror, "d", 512)
        assert store.names() == ("a", "c", "d")


def test_an_open_sequence_never_goes(tmp_path: Path) -> None:
    mirror = opened(tmp_path, f"&evict=lru&quota={4 * EXTENT}")
    with mirror.store as store:
        first, second = grown(mirror, "a"), grown(mirror, "b")
        with pytest.raises(QuotaExceeded):
            mirror.append([second], 64)
        assert store.stats().evicted == 0
        mirror.query([first, second])


def test_what_an_open_one_shares_with_an_evicted_one_stays(tmp_path: Path) -> None:
    mirror = opened(tmp_path, f"&evict=lru&quota={6 * EXTENT}")
    with mirror.store as store:
        first = grown(mirror, "a", 300)
        store.fork_named(first, "b")
        second = mirror.copied(first, store.open_sequence("b"))
        store.free(first)
        mirror.append([second], 200)
        store.flush()
        assert store.names() == ("b",)
        mirror.check_rows(second)
        mirror.query([second])


@pytest.mark.parametrize("option", ["quota=0", "quota=1.5", "quota=x", "evict=yes"])
def test_bad_options_are_refused_before_anything_is_made(tmp_path: Path, option: str) -> None:
    with pytest.raises(ValueError, match=option.partition("=")[0]):
        KVStore.open(layout(), urls(CARDS, tmp_path, options=f"&{option}"))
    assert list(tmp_path.iterdir()) == []


def test_eviction_is_for_all_cards_or_none(tmp_path: Path) -> None:
    cards = urls(CARDS, tmp_path)
    with pytest.raises(UserError, match="all cards of a store have the same"):
        KVStore.open(layout(), [cards[0] + "&evict=lru", cards[1]])
    assert list(tmp_path.iterdir()) == []


def test_without_eviction_a_full_disk_says_file_needed_and_free(tmp_path: Path) -> None:
    calls = FaultySyscalls(SystemCalls())
    mirror = opened(tmp_path, "", calls)
    with mirror.store as store:
        first = grown(mirror, "a")
        calls.faults = [Fails("allocate", errno.ENOSPC, last=None)]
        with pytest.raises(StorageError, match=r"data-000000\.pages: disk full: \d+ bytes needed, \d+ free"):
            mirror.append([first], 600)
        mirror.check_rows(first)
        calls.faults = []
        mirror.append([first], 600)
        store.flush()
        mirror.check_rows(first)


def test_a_store_that_may_evict_and_was_dropped_gives_its_volumes_back(tmp_path: Path) -> None:
    def drop() -> None:
        grown(opened(tmp_path, "&evict=lru"), "a")
        gc.collect()

    with pytest.warns(ResourceWarning, match="dropped without close"):
        drop()
    with opened(tmp_path, "&evict=lru").store as store:
        assert store.names() == ("a",)
