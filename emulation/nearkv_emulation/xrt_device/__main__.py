# SPDX-License-Identifier: Apache-2.0
"""`python -m nearkv_emulation.xrt_device`: see `main`."""

import sys

from nearkv_emulation.xrt_device.main import main

sys.exit(main())
