# SPDX-License-Identifier: Apache-2.0
"""The driver: the only package that knows registers and descriptors."""
