# SPDX-License-Identifier: Apache-2.0
"""How long the parts of a model's fingerprint are, for who makes one and for who takes one apart. Loads no model."""

from __future__ import annotations

# Hexadecimal digits, in this order.
WEIGHTS, SETTINGS = 32, 16
