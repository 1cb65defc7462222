# SPDX-License-Identifier: Apache-2.0
"""Compares the top's ports, and the widths inside, with the register map; and both with the HLS top.

Each finding is one sentence that names the file, the thing and both values. Register decode is in `registers`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tools.rtl.contract import Contract
from tools.rtl.elaborate import parameters, port_bits, tree
from tools.rtl.hls_top import HlsTop
from tools.rtl.verilog import Module

# Pointers of an HLS kernel start here in s_axi_control and take this many bytes each (Vitis, 64-bit addresses).
_FIRST_POINTER = 0x10
_POINTER_BYTES = 12
_CONTROL_ADDRESS_BITS = 12
_CONTROL_BITS = 32
_ADDRESS_BITS = 64
_ID_BITS = 3

# Ports inside whose width follows from the register map: {module: {port: (what, times)}}.
_WIDTHS: dict[str, dict[str, tuple[str, str]]] = {
    "element_decode": {"m_data": ("significand_bits", "lanes")},
    "array_row": {
        "s_elements": ("significand_bits", "lanes"),
        "s_query": ("significand_bits", "lanes"),
        "s_weight": ("aligned_bits", ""),
        "sums": ("tile_bits", "lanes"),
    },
    "weight_align": {"m_weight": ("aligned_bits", "")},
    "exp2": {"fraction": ("score_fraction_bits", "")},
    "bin_lane": {
        "s_sum": ("tile_bits", ""),
        "s_bins": ("bin_register_bits", "bins"),
        "m_bins": ("bin_register_bits", "bins"),
    },
    "float_convert": {"s_bins": ("bin_register_bits", "bins")},
}


def findings(modules: Mapping[str, Module], contract: Contract, hls: HlsTop, word_bits: int) -> list[str]:
    """What differs between RTL, register map and HLS top."""
    problems = list(_names(contract, hls, word_bits))
    problems += _pragmas(contract, hls)
    if contract.kernel not in modules:
        return [*problems, f"{contract.file} names the kernel {contract.kernel}; no Verilog file defines it"]
    problems += _ports(modules[contract.kernel], expected_ports(contract, hls))
    problems += _widths(modules, contract)
    problems += _bursts(modules, contract, hls)
    return problems


def expected_ports(contract: Contract, hls: HlsTop) -> dict[str, tuple[str, int]]:
    """{name: (direction, bits)} of a Vitis RTL kernel with this register map and these arguments."""
    ports = {"ap_clk": ("input", 1), "ap_rst_n": ("input", 1), "interrupt": ("output", 1)}
    ports |= _channels("s_axi_control", _CONTROL, "input")
    reads = {argument.name: argument.reads for argument in hls.arguments}
    for master in contract.masters:
        channels = _reading(contract) if reads.get(master, True) else _writing(contract)
        ports |= _channels(f"m_axi_{master}", channels, "output")
    return ports


# {channel: {signal: bits}}; `ready` goes against its channel
_CONTROL = {
    "aw": {"addr": _CONTROL_ADDRESS_BITS},
    "w": {"data": _CONTROL_BITS, "strb": _CONTROL_BITS // 8},
    "b": {"resp": 2},
    "ar": {"addr": _CONTROL_ADDRESS_BITS},
    "r": {"data": _CONTROL_BITS, "resp": 2},
}
_ASK = {"id": _ID_BITS, "addr": _ADDRESS_BITS, "len": 8, "size": 3, "burst": 2}


def _reading(contract: Contract) -> dict[str, dict[str, int]]:
    return {"ar": _ASK, "r": {"id": _ID_BITS, "data": contract.word_bits(), "resp": 2, "last": 1}}


def _writing(contract: Contract) -> dict[str, dict[str, int]]:
    word = {"data": contract.word_bits(), "strb": contract.word_bits() // 8, "last": 1}
    return {"aw": _ASK, "w": word, "b": {"id": _ID_BITS, "resp": 2}}


def _channels(prefix: str, channels: dict[str, dict[str, int]], asks: str) -> dict[str, tuple[str, int]]:
    """Ports of an AXI interface; `asks` is the direction of its address channels."""
    answers = "output" if asks == "input" else "input"
    ports = {}
    for channel, signals in channels.items():
        forth, back = (answers, asks) if channel in ("b", "r") else (asks, answers)
        for signal, width in {**signals, "valid": 1}.items():
            ports[f"{prefix}_{channel}{signal}"] = (forth, width)
        ports[f"{prefix}_{channel}ready"] = (back, 1)
    return ports


def _names(contract: Contract, hls: HlsTop, word_bits: int) -> Iterator[str]:
    if hls.name != contract.kernel:
        yield f"{hls.file}: the HLS top is {hls.name}; {contract.file} names the kernel {contract.kernel}"
    arguments = [argument.name for argument in hls.arguments]
    if arguments != list(contract.masters):
        yield f"{hls.file}: arguments {', '.join(arguments)}; {contract.file} has masters {', '.join(contract.masters)}"
    pointers = [register.name.lower() for register in contract.pointers()]
    if arguments != pointers:
        yield f"{hls.file}: arguments {', '.join(arguments)}; {contract.file} has pointers {', '.join(pointers)}"
    for index, register in enumerate(contract.pointers()):
        offset = _FIRST_POINTER + _POINTER_BYTES * index
        if register.offset != offset:
            found = f"{contract.file}: register {register.name} is at 0x{register.offset:02X}"
            yield f"{found}; HLS puts it at 0x{offset:02X}"
    if word_bits != contract.word_bits():
        yield f"word_t of the HLS form has {word_bits} bits; {contract.file} has {contract.word_bits()}"
    for argument in hls.arguments:
        if argument.type != "word_t":
            yield f"{hls.file}: argument {argument.name} points to {argument.type}; the masters carry word_t"


def _pragmas(contract: Contract, hls: HlsTop) -> Iterator[str]:
    bundles = {pragma.get("port", ""): pragma for pragma in hls.mode("m_axi")}
    for master in contract.masters:
        pragma = bundles.get(master)
        if pragma is None:
            yield f"{hls.file}: no m_axi pragma for port {master}; {contract.file} has master {master}"
            continue
        wanted = {"bundle": master, "offset": "slave", "max_widen_bitwidth": str(contract.word_bits())}
        for key, want in wanted.items():
            if pragma.get(key) != want:
                yield f"{hls.file}: m_axi port {master} has {key} {pragma.get(key)}; the RTL has {want}"
    controlled = {pragma.get("port"): pragma.get("bundle") for pragma in hls.mode("s_axilite")}
    for port in (*contract.masters, "return"):
        if controlled.get(port) != "control":
            yield f"{hls.file}: s_axilite port {port} has bundle {controlled.get(port)}; the RTL has control"
    if [pragma.get("port") for pragma in hls.mode("ap_ctrl_chain")] != ["return"]:
        yield f"{hls.file}: the top is not ap_ctrl_chain; the RTL and {contract.file} are"


def _ports(top: Module, expected: Mapping[str, tuple[str, int]]) -> Iterator[str]:
    widths = port_bits(top, parameters(top, {}))
    found = {name: (port.direction, widths[name]) for name, port in top.ports.items()}
    for name, (direction, bits) in expected.items():
        if name not in found:
            yield f"{top.path.name}: port {name} is missing; expected an {direction} of {bits} bits"
        elif found[name] != (direction, bits):
            has = f"an {found[name][0]} of {found[name][1]} bits"
            yield f"{top.path.name}: port {name} is {has}; expected an {direction} of {bits} bits"
    for name in found:
        if name not in expected:
            yield f"{top.path.name}: port {name} is none that the register map and the HLS top know"


def _widths(modules: Mapping[str, Module], contract: Contract) -> Iterator[str]:
    for name, ports in _WIDTHS.items():
        if name not in modules:
            yield f"module {name} is missing; its widths follow from {contract.file}"
            continue
        module = modules[name]
        widths = port_bits(module, parameters(module, {}))
        for port, (what, times) in ports.items():
            want = contract.parameters[what] * (contract.parameters[times] if times else 1)
            if widths.get(port) != want:
                rule = f"{times} * {what}" if times else what
                found = f"{module.path.name}: port {port} has {widths.get(port)} bits"
                yield f"{found}; {rule} of {contract.file} is {want}"


def _bursts(modules: Mapping[str, Module], contract: Contract, hls: HlsTop) -> Iterator[str]:
    """The longest burst of the RTL, of the HLS form, and a page are the same number of words."""
    want = contract.parameters["page_bytes"] // contract.parameters["word_bytes"]
    longest: dict[str, int] = {}
    for module, instance in tree(modules, contract.kernel):
        if instance.module in modules:
            values = parameters(modules[instance.module], instance.parameters)
            if "MAX_BURST" in values:
                longest[module.path.name] = max(values["MAX_BURST"], longest.get(module.path.name, 0))
    if max(longest.values(), default=0) != want:
        found = ", ".join(f"{burst} in {file}" for file, burst in longest.items()) or "nowhere"
        yield f"parameter MAX_BURST is {found}; a page of {contract.file} has {want} words"
    for pragma in hls.mode("m_axi"):
        key = next((key for key in pragma if key.startswith("max_") and key.endswith("_burst_length")), "burst length")
        if pragma.get(key) != str(want):
            yield f"{hls.file}: m_axi port {pragma.get('port')} has {key} {pragma.get(key)}; a page has {want} words"
