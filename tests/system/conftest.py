# SPDX-License-Identifier: Apache-2.0
"""A tiny model and its sessions, for all tests that need them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from nearkv.session.chat import Session

from tests.support.tiny_folder import tiny_folder
from tests.support.tiny_sessions import cards


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The model's folder."""
    return tiny_folder(tmp_path_factory.mktemp("model") / "tiny")


@pytest.fixture
def opened(model: Path, tmp_path: Path) -> Callable[..., Session]:
    """Opens a session of the tiny model, by name, on two cards in the test's folder."""

    def open_(name: str = "trip", folder: Path = tmp_path, **options: Any) -> Session:
        return Session.open(name, model=options.pop("model", model), cards=cards(folder), threads=1, **options)

    return open_
