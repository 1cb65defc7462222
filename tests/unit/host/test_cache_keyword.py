# SPDX-License-Identifier: Apache-2.0
"""The new name where a model knows it, the old one elsewhere; nothing here makes transformers warn."""

from __future__ import annotations

import time
import warnings

import pytest
from nearkv.models.cache_keyword import cache_keyword
from nearkv.models.measure import layer_s


class New:
    def forward(self, input_ids: object, cache: object = None) -> None:
        """As from transformers 5.24 on."""


class Old:
    def forward(self, input_ids: object, past_key_values: object = None) -> None:
        """As before."""


def test_the_name_that_a_model_takes() -> None:
    assert (cache_keyword(New()), cache_keyword(Old())) == ("cache", "past_key_values")


@pytest.mark.usefixtures("one_thread")
def test_calibration_warns_of_nothing() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", FutureWarning)
        assert layer_s("cpu", time.process_time, None) > 0
