# SPDX-License-Identifier: Apache-2.0
"""What the exit codes of `nearkv` mean, beside 0 and a command's own 1."""

BAD_INPUT, CARD_TROUBLE, INTERRUPTED, CLOSED_OUTPUT = 2, 3, 130, 141
