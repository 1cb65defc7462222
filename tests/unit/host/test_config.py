# SPDX-License-Identifier: Apache-2.0
"""Settings come from the environment with defaults, and a bad value names its variable."""

from __future__ import annotations

from pathlib import Path

import pytest
from nearkv.config import DEFAULT_CARDS, available_cpus, load_settings
from nearkv.errors import UserError


def test_defaults_when_the_environment_says_nothing() -> None:
    settings = load_settings({})
    assert settings.cards == DEFAULT_CARDS
    assert settings.threads == available_cpus()
    assert settings.cache_dir.name == "nearkv"


def test_each_variable_is_read() -> None:
    settings = load_settings(
        {"NEARKV_CACHE_DIR": "/some/where", "NEARKV_CARDS": " sw_emu:3  sw_emu:4?dram=1G ", "NEARKV_THREADS": "3"}
    )
    assert settings.cache_dir == Path("/some/where")
    assert settings.cards == ("sw_emu:3", "sw_emu:4?dram=1G")
    assert settings.threads == 3


@pytest.mark.parametrize("value", ["0", "-1", "two", "1.5", "\u0663"])
def test_bad_thread_counts_name_variable_and_value(value: str) -> None:
    with pytest.raises(UserError, match="NEARKV_THREADS") as caught:
        load_settings({"NEARKV_THREADS": value})
    assert repr(value) in str(caught.value)


def test_a_cache_folder_of_nobody_is_refused() -> None:
    with pytest.raises(UserError, match="NEARKV_CACHE_DIR is '~nosuchuser/cache'"):
        load_settings({"NEARKV_CACHE_DIR": "~nosuchuser/cache"})
