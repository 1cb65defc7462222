# SPDX-License-Identifier: Apache-2.0
"""What Vitis knows of a kernel: its ports and arguments, as `kernel.xml` and as the metadata of an xclbin name them.

`nearkv_kernel` is ours, from the register map. Behaviour is not described here.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Callable
from dataclasses import dataclass

from nearkv_driver import regmap
from nearkv_driver.xclbin.tables import Protocol

CONTROL = "s_axi_control"
_WINDOW = 0x1000
_EVERYWHERE = 0xFFFFFFFFFFFFFFFF
_POINTER = 1  # addressQualifier
_POINTER_NBYTES = 8
_QUALIFIERS_MAX = 4
_PROTOCOLS = {p.name.lower(): p for p in Protocol}


@dataclass(frozen=True)
class Port:
    """An AXI interface. `mode` is `master` or `slave`; `range_nbytes` of a slave is its register window."""

    name: str
    mode: str
    range_nbytes: int
    data_bits: int


@dataclass(frozen=True)
class Argument:
    """An argument in the register file; `pointer` ones reach memory through `port`."""

    name: str
    index: int
    port: str
    offset: int
    nbytes: int
    type: str
    pointer: bool = True


@dataclass(frozen=True)
class Kernel:
    """What a kernel.xml says: how a kernel is started, its AXI interfaces, its arguments by index."""

    name: str
    protocol: Protocol
    ports: tuple[Port, ...]
    arguments: tuple[Argument, ...]

    @property
    def vlnv(self) -> str:
        """Vendor, library, name, version; PYNQ finds drivers by it."""
        return f"nearkv:kernel:{self.name}:1.0"

    def elements(self) -> list[ET.Element]:
        """Ports and arguments, with every attribute that XRT's parser wants."""
        found = []
        for port in self.ports:
            attributes = {"name": port.name, "mode": port.mode, "range": hex(port.range_nbytes)}
            attributes |= {"dataWidth": str(port.data_bits), "portType": "addressable", "base": "0x0"}
            found.append(ET.Element("port", attributes))
        for a in self.arguments:
            attributes = {"name": a.name, "addressQualifier": str(int(a.pointer)), "id": str(a.index), "port": a.port}
            attributes |= {"size": hex(a.nbytes), "offset": hex(a.offset), "hostOffset": "0x0"}
            found.append(ET.Element("arg", attributes | {"hostSize": hex(a.nbytes), "type": a.type}))
        return found

    def xml(self) -> str:
        """`kernel.xml` for `package_xo`."""
        root = ET.Element("root", {"versionMajor": "1", "versionMinor": "6"})
        attributes = {"name": self.name, "language": "ip", "vlnv": self.vlnv, "attributes": ""}
        attributes |= {"preferredWorkGroupSizeMultiple": "0", "workGroupSize": "1", "interrupt": "true"}
        attributes["hwControlProtocol"] = self.protocol.name.lower()
        kernel = ET.SubElement(root, "kernel", attributes)
        ports, arguments = ET.SubElement(kernel, "ports"), ET.SubElement(kernel, "args")
        for element in self.elements():
            (ports if element.tag == "port" else arguments).append(element)
        ET.indent(root)
        return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"

    @classmethod
    def of(cls, element: ET.Element, fail: Callable[[str], Exception]) -> Kernel:
        """From a `kernel` element; `fail` makes the error to raise of a sentence."""
        name = _attribute(element, "name", fail)
        protocol = element.get("hwControlProtocol", "ap_ctrl_hs")
        if protocol not in _PROTOCOLS:
            raise fail(f"kernel {name}: hwControlProtocol {protocol!r}; known: {', '.join(_PROTOCOLS)}")
        ports = tuple(
            Port(
                _attribute(port, "name", fail),
                _attribute(port, "mode", fail),
                _number(port, "range", fail),
                _number(port, "dataWidth", fail),
            )
            for port in element.iter("port")
        )
        arguments = tuple(_argument(argument, fail) for argument in element.iter("arg"))
        return cls(name, _PROTOCOLS[protocol], ports, arguments)


def nearkv_kernel() -> Kernel:
    """The kernel of this project: `s_axi_control`, and one 512-bit master per pointer."""
    masters = (("kv", regmap.ADDR_KV), ("ctl", regmap.ADDR_CTL), ("out", regmap.ADDR_OUT))
    ports = [Port(CONTROL, "slave", _WINDOW, 32)]
    ports += [Port(f"m_axi_{name}", "master", _EVERYWHERE, regmap.WORD_BYTES * 8) for name, _ in masters]
    arguments = tuple(
        Argument(name, i, f"m_axi_{name}", offset, _POINTER_NBYTES, "void*") for i, (name, offset) in enumerate(masters)
    )
    return Kernel(regmap.KERNEL, Protocol.AP_CTRL_CHAIN, tuple(ports), arguments)


def parse_xml(text: str | bytes, fail: Callable[[str], Exception]) -> ET.Element:
    """The root. A document type is refused: entities can be made to grow without bound."""
    data = text.encode() if isinstance(text, str) else text
    if b"<!DOCTYPE" in data or b"<!ENTITY" in data:
        raise fail("the XML has a document type, which this reader does not take")
    try:
        return ET.fromstring(data)
    except ET.ParseError as error:
        raise fail(f"no XML: {error}") from None


def _argument(element: ET.Element, fail: Callable[[str], Exception]) -> Argument:
    qualifier = _number(element, "addressQualifier", fail)
    if not 0 <= qualifier <= _QUALIFIERS_MAX:
        raise fail(f"arg {element.get('name')}: addressQualifier {qualifier}; 0 to {_QUALIFIERS_MAX} is expected")
    return Argument(
        name=_attribute(element, "name", fail),
        index=_number(element, "id", fail) if element.get("id") else -1,
        port=element.get("port", ""),
        offset=_number(element, "offset", fail),
        nbytes=_number(element, "size", fail),
        type=element.get("type", ""),
        pointer=qualifier == _POINTER,
    )


def _attribute(element: ET.Element, name: str, fail: Callable[[str], Exception]) -> str:
    value = element.get(name)
    if value is None:
        raise fail(f"<{element.tag} {element.get('name', '')}> has no attribute {name}")
    return value


def _number(element: ET.Element, name: str, fail: Callable[[str], Exception]) -> int:
    value = _attribute(element, name, fail)
    try:
        return int(value, 0)
    except ValueError:
        raise fail(f"<{element.tag} {element.get('name', '')}>: {name}={value!r} is no number") from None
