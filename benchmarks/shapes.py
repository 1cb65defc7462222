# SPDX-License-Identifier: Apache-2.0
"""The model whose shape most benchmarks have."""

from __future__ import annotations

from nearkv.layout import ModelLayout

SMOLLM2 = ModelLayout("SmolLM2-135M", layers=30, query_heads=9, kv_heads=3, head_size=64)
