# SPDX-License-Identifier: Apache-2.0
"""Emulated cards: other implementations of the driver's transport protocol."""
