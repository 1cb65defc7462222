#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Makes .venv-pynq: PYNQ 3.0.1 and what must be older for its sake. All else comes from .venv, which must exist.
# Called by make; safe to run again. Versions are those of pyproject.toml.
set -eu
cd "$(dirname "$0")/.."

[ -x .venv-pynq/bin/python ] || .venv/bin/python -m venv .venv-pynq
pip=".venv-pynq/bin/python -m pip --disable-pip-version-check --quiet"
folder=$(.venv-pynq/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
rm -f "$folder/nearkv-fallback.pth" # so that pip sees this environment alone
$pip install --upgrade 'pip>=25.1'  # knows dependency groups
$pip install --group pynq
# A line of a .pth file is searched after the folder it lies in: the older packages win.
.venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))' >"$folder/nearkv-fallback.pth"
.venv-pynq/bin/python -W ignore -c 'import pynq' || {
    printf 'setup: PYNQ was installed, but does not load\n' >&2
    exit 1
}
