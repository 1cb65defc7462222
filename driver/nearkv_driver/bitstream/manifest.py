# SPDX-License-Identifier: Apache-2.0
"""The JSON file beside an xclbin: from what, with what and how it was made, and what came out. Writes no file."""

from __future__ import annotations

import hashlib
import re
import shlex
from collections.abc import Mapping
from typing import Any

from nearkv_driver import regmap
from nearkv_driver.bitstream.plan import Plan
from nearkv_driver.bitstream.reports import Timing, Use, Utilisation
from nearkv_driver.bitstream.runner import Done
from nearkv_driver.bitstream.tools import Tools
from nearkv_driver.bitstream.verdict import Verdict

SCHEMA = 1


def manifest(
    plan: Plan,
    tools: Tools,
    done: list[Done],
    verdict: Verdict,
    timing: Timing | None,
    utilisation: Utilisation,
    xclbin: bytes,
    identity: Mapping[str, str],
    refused: tuple[str, ...],
) -> dict[str, Any]:
    """Everything as one document. `identity` is what the xclbin says of itself; `refused` why it was not taken."""
    revision = plan.sources.revision
    return {
        "schema": SCHEMA,
        "accepted": not refused,
        "refused": list(refused),
        "kernel": regmap.KERNEL,
        "contract_version": regmap.CONTRACT_VERSION,
        "regmap_hash": f"{regmap.REGMAP_HASH:08x}",
        "platform": plan.request.platform.key,
        "vendor_platform": tools.platform_name,
        "flow": str(plan.request.flow),
        "target": str(plan.request.target),
        "units": [{"name": u.name, "memory": u.tag, "slr": u.slr} for u in plan.link.units],
        "sources": {"commit": revision.commit, "dirty": revision.dirty, "sha256": revision.digest},
        "tools": {"vitis": tools.vpp.version, "vivado": tools.vivado.version},
        "clock": {"requested_mhz": plan.frequency_mhz, "achieved_mhz": verdict.achieved_mhz},
        "timing": {"closure": str(verdict.closure), "reason": verdict.reason, **_timing(timing)},
        "utilisation": {"device": _uses(utilisation.device), "kernel": _uses(utilisation.kernel)},
        "xclbin": {**identity, "nbytes": len(xclbin), "sha256": hashlib.sha256(xclbin).hexdigest()},
        "link_configuration": plan.config_text,
        "notes": [*(finding.text for finding in plan.notes), *_platform_note(tools, identity)],
        "steps": [
            {"name": d.step.name, "command": shlex.join(d.step.command), "log": str(d.log), "seconds": round(d.seconds)}
            for d in done
        ],
    }


def _platform_note(tools: Tools, identity: Mapping[str, str]) -> list[str]:
    """The name in the file is the vendor's affair; another one than was asked for is worth a look."""
    found = re.sub("[^a-z0-9]+", "_", identity["platform"].lower())
    if tools.platform_name in found:
        return []
    return [f"the xclbin names platform {identity['platform']!r}, the build was for {tools.platform_name!r}"]


def _timing(timing: Timing | None) -> dict[str, Any]:
    if timing is None:
        return {}
    return {
        "wns_ns": timing.wns_ns,
        "tns_ns": timing.tns_ns,
        "failing_endpoints": timing.failing_endpoints,
        "whs_ns": timing.whs_ns,
        "wpws_ns": timing.wpws_ns,
        "worst_clock": timing.clock,
        "report": str(timing.file),
    }


def _uses(uses: Mapping[str, Use]) -> dict[str, Any]:
    return {name: {"used": u.used, "available": u.available, "percent": u.percent} for name, u in uses.items()}
