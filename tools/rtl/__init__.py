# SPDX-License-Identifier: Apache-2.0
"""What reads fpga/rtl without simulating it: structure and interface checks, the module diagram, synthesis counts."""
