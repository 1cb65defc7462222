# SPDX-License-Identifier: Apache-2.0
"""Hypothesis for all tests: the same examples each time, and no limit of time that a busy machine would break."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

settings.register_profile("nearkv", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("nearkv")
