# SPDX-License-Identifier: Apache-2.0
"""A bench in which nothing runs, so that a test can prove that this is seen."""
