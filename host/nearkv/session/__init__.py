# SPDX-License-Identifier: Apache-2.0
"""Conversations that outlive the process: token ids in a journal beside the volume, K and V in the volume itself."""
