# SPDX-License-Identifier: Apache-2.0
"""Maps single modules of fpga/rtl to UltraScale+ with Yosys and keeps the netlists in a cache.

What a module instantiates is a black box to it, so a change of one module costs one run. Adds nothing up.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import tempfile
from collections.abc import Callable, Collection, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import platformdirs

from tools.rtl import netlist, yosys
from tools.rtl.netlist import Netlist, Variant
from tools.rtl.sources import Sources

# Commands after the files are read. Modules without content, the instantiated ones, are black boxes to Yosys.
_FLOW = (
    "hierarchy -check -top {top}",
    "synth_xilinx -family xcup -top {top} -noiopad -noclkbuf",
    "setattr -unset src {top}/*",
    "write_json -noscopeinfo mapped.json",
)


def default_cache() -> Path:
    """Where netlists are kept."""
    return platformdirs.user_cache_path("nearkv") / "synthesis"


class Synthesis:
    """Netlists of the modules of some sources."""

    def __init__(self, sources: Sources, cache: Path | None = None) -> None:
        self._sources = sources
        self._cache = cache or default_cache()

    def cached(self, variant: Variant) -> Path:
        """Where the netlist of a module lies or will lie."""
        key = repr((yosys.version(), _FLOW, self._sources.digest(variant)))
        return self._cache / f"{variant.module}-{hashlib.sha256(key.encode()).hexdigest()[:24]}.json.gz"

    def netlist(self, variant: Variant) -> Netlist:
        """The mapped module, from the cache if it is there. Raises YosysFailed, ValueError for an unknown cell."""
        path = self.cached(variant)
        instantiated = {child.module for child in self._sources.children(variant)}
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            _write(path, self._run(variant, instantiated))
        return netlist.read(gzip.decompress(path.read_bytes()).decode(), variant.module, instantiated)

    def netlists(
        self, variants: Iterable[Variant], jobs: int, progress: Callable[[Variant], None]
    ) -> dict[Variant, Netlist]:
        """Many modules, `jobs` at a time; `progress` hears of each when it is there."""
        with ThreadPoolExecutor(jobs) as pool:
            waiting = {variant: pool.submit(self.netlist, variant) for variant in variants}
            found = {}
            try:
                for variant, future in waiting.items():
                    found[variant] = future.result()
                    progress(variant)
            finally:
                # After an error nobody wants the others.
                pool.shutdown(cancel_futures=True)
        return found

    def _run(self, variant: Variant, instantiated: Collection[str]) -> str:
        """What Yosys writes, without its library."""
        top = variant.module
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            files = self._sources.files(variant)
            for file, text in files.items():
                (folder / file).write_text(text)
            values = "".join(f" -set {key} {value}" for key, value in variant.values)
            commands = [f"read_verilog {file}" for file in files if file.endswith(".v")]
            if values:
                commands.append(f"chparam{values} {top}")
            commands += [line.format(top=top) for line in _FLOW]
            yosys.run(commands, folder)
            modules = json.loads((folder / "mapped.json").read_text())["modules"]
        return json.dumps({"modules": {name: modules[name] for name in (top, *sorted(instantiated))}})


def _write(path: Path, text: str) -> None:
    """Whole or not at all: others may look for it."""
    with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
        file.write(gzip.compress(text.encode(), compresslevel=3))
    Path(file.name).replace(path)
