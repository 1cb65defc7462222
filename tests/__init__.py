# SPDX-License-Identifier: Apache-2.0
"""Makes `tests` a regular package: without this file it loses to any `tests` that a wheel left in site-packages."""
