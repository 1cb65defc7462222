# SPDX-License-Identifier: Apache-2.0
"""Scripts and checks of the repository itself; nothing here is installed."""
