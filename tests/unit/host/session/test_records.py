# SPDX-License-Identifier: Apache-2.0
"""Values that a journal's records may not have are named."""

from __future__ import annotations

import pytest
from nearkv.session.records import Sampling


@pytest.mark.parametrize(
    "values",
    [
        {"temperature": -1.0},
        {"temperature": float("nan")},
        {"top_k": -1},
        {"top_k": True},
        {"top_p": 0.0},
        {"top_p": 1.5},
        {"seed": -1},
        {"seed": 2**63},
        {"temperature": True},
    ],
    ids=str,
)
def test_sampling_names_what_is_out_of_range(values: dict[str, object]) -> None:
    (name,) = values
    with pytest.raises(ValueError, match=f"{name} = "):
        Sampling(**values)  # type: ignore[arg-type]
