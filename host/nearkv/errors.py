# SPDX-License-Identifier: Apache-2.0
"""What users of the Python API may catch; device and storage trouble has its own types in nearkv_driver.errors.

`UserError` is a ValueError, so code that knows nothing of nearkv still catches it. Its text is one line that names the
value and what is allowed; the command line prints it as it stands. `DriverError` is re-exported: everything that a
card, its link or its drive can do wrong derives from it.
"""

from __future__ import annotations

from nearkv_driver.errors import DriverError

__all__ = ["DriverError", "UserError", "one_line"]


class UserError(ValueError):
    """What was asked cannot be done as asked; nothing was created or changed."""


def one_line(error: BaseException) -> str:
    """The error's text on one line; the type's name where it has no text."""
    if isinstance(error, OSError) and error.strerror:
        text = f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    else:
        text = str(error)
    return " ".join(text.split()) or type(error).__name__
