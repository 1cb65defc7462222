# SPDX-License-Identifier: Apache-2.0
"""Near-data attention: decoder LLMs whose KV cache lives on computational storage."""
