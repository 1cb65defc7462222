# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the contract suite: each test runs once per transport."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from nearkv_driver.transport import Transport

from tests.support.transports import CANDIDATES, Candidate


@pytest.fixture(params=[pytest.param(c, id=c.name, marks=c.marks) for c in CANDIDATES])
def candidate(request: pytest.FixtureRequest) -> Candidate:
    value = request.param
    assert isinstance(value, Candidate)
    return value


@pytest.fixture
def card(candidate: Candidate) -> Iterator[Transport]:
    transport = candidate.open()
    yield transport
    transport.close()


@pytest.fixture
def p2p_card(card: Transport) -> Transport:
    if not card.info().p2p:
        pytest.skip(f"no P2P: {card.info().p2p_reason}")
    return card
