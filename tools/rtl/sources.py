# SPDX-License-Identifier: Apache-2.0
"""What a synthesis reads for one module of fpga/rtl: its text without comments, and the ports of what it instantiates.

Texts that say the same to a tool are equal here, and so are their digests. Runs no tool but pyverilog's parser.
"""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

from tools.rtl import elaborate, verilog
from tools.rtl.netlist import Variant

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_INCLUDE = re.compile(r'^`include "([^"]+)"', re.MULTILINE)
_HEADER = re.compile(r"\A.*?^module [^;]*;", re.DOTALL | re.MULTILINE)


class Sources:
    """The modules of a folder, one per file, and its headers."""

    def __init__(self, folder: Path) -> None:
        self._texts = {path.name: plain(path.read_text()) for path in sorted(folder.glob("*.v*"))}
        self._modules = {module.name: module for module in verilog.read(folder.glob("*.v"), folder)}

    def variant(self, module: str, **values: int) -> Variant:
        """A module with some of its parameters given. Raises ValueError for what does not exist."""
        if module not in self._modules:
            raise ValueError(f"there is no module {module}; there are {', '.join(sorted(self._modules))}")
        known = self._modules[module].parameters
        for name in values:
            if name not in known:
                raise ValueError(f"module {module} has no parameter {name}; it has {', '.join(known) or 'none'}")
        return Variant(module, tuple(sorted(elaborate.parameters(self._modules[module], values).items())))

    def children(self, variant: Variant) -> list[Variant]:
        """What a module instantiates, one entry per instance."""
        found = elaborate.instances(self._modules[variant.module], dict(variant.values))
        return [self._child(variant, instance) for instance in found]

    def count(self, top: str) -> dict[Variant, int]:
        """Every module under `top`, itself first, and how many instances there are of it."""
        counts: dict[Variant, int] = {}
        self._count(self.variant(top), counts)
        return counts

    def files(self, variant: Variant) -> dict[str, str]:
        """What Yosys has to read, by the names of the files."""
        name = f"{variant.module}.v"
        files = {name: self._texts[name]}
        for child in self.children(variant):
            files[f"{child.module}.v"] = self._ports_only(child.module)
        left = [include for text in files.values() for include in _INCLUDE.findall(text)]
        while left:
            name = left.pop()
            if name not in files:
                files[name] = self._texts[name]
                left += _INCLUDE.findall(files[name])
        return dict(sorted(files.items()))

    def digest(self, variant: Variant) -> str:
        """Changes when anything changes that a synthesis of the module would read."""
        text = json.dumps([variant.module, variant.values, self.files(variant)])
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def _child(self, parent: Variant, instance: elaborate.Instance) -> Variant:
        values = {name: value for name, value in instance.parameters.items() if value is not None}
        if len(values) < len(instance.parameters):
            raise ValueError(f"{parent.module}: instance {instance.name} has a parameter that is no constant")
        return self.variant(instance.module, **values)

    def _count(self, variant: Variant, counts: dict[Variant, int]) -> None:
        counts[variant] = counts.get(variant, 0) + 1
        for child in self.children(variant):
            self._count(child, counts)

    def _ports_only(self, module: str) -> str:
        header = _HEADER.match(self._texts[f"{module}.v"])
        if header is None:
            raise ValueError(f"{module}.v: no module with a port list")
        return f"{header.group()}\nendmodule\n`resetall\n"


def plain(text: str) -> str:
    """Verilog without comments, indentation and empty lines."""
    lines = (" ".join(line.split()) for line in _COMMENT.sub(" ", text).splitlines())
    return "".join(f"{line}\n" for line in lines if line)
