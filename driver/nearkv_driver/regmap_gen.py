# SPDX-License-Identifier: Apache-2.0
"""Generates every form of the kernel contract from `fpga/regmap.toml`.

    python -m nearkv_driver.regmap_gen            write every file of FORMS
    python -m nearkv_driver.regmap_gen --check    exit 1 and name each file that differs from what would be written

The inputs are checked first: offsets ascend and do not overlap, codes are distinct, arguments follow the Vitis rule.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
SOURCE = "fpga/regmap.toml"
TYPE_BITS = {"u32": 32, "i32": 32, "u64": 64}
LICENCE = "SPDX-License-Identifier: Apache-2.0"
NOTICE = f"Generated from {SOURCE} by nearkv_driver.regmap_gen: edit that file."

Contract = dict[str, Any]


def load(path: Path) -> Contract:
    """The contract of a TOML file; raises ValueError with a sentence when it contradicts itself."""
    with path.open("rb") as f:
        contract = tomllib.load(f)
    _check_structs(contract)
    _check_registers(contract)
    for name, enum in contract["enums"].items():
        values = [v["value"] for k, v in enum.items() if k != "doc"]
        if len(values) != len(set(values)):
            raise ValueError(f"enums.{name} uses a value twice")
    return contract


def _check_structs(contract: Contract) -> None:
    word = contract["parameters"]["word_bytes"]["value"]
    for name, struct in contract["structs"].items():
        nbytes, end = struct["nbytes"], 0
        if word % nbytes and nbytes % word:
            raise ValueError(f"structs.{name}: {nbytes} bytes neither fill nor divide words of {word}")
        for field in struct["fields"]:
            size = TYPE_BITS[field["type"]] // 8
            if field["offset"] < end or field["offset"] % size:
                raise ValueError(f"structs.{name}.{field['name']} overlaps its neighbour or is not aligned to {size}")
            end = field["offset"] + size
        if end > nbytes:
            raise ValueError(f"structs.{name} has {nbytes} bytes, its fields need {end}")


def _check_registers(contract: Contract) -> None:
    expected = 0x10
    for name, register in contract["registers"].items():
        if register["offset"] < 0x10:
            continue
        # Vitis HLS leaves one reserved word after each argument: 8 bytes for 32 bits, 12 for 64.
        if register["offset"] != expected:
            raise ValueError(f"registers.{name} at {register['offset']:#x}: the Vitis layout puts it at {expected:#x}")
        expected += 12 if register.get("bits", 32) == 64 else 8


def contract_hash(contract: Contract) -> int:
    """First four bytes of the SHA-256 of everything but the prose: what identity.regmap_hash reports."""

    def without_docs(node: Any) -> Any:
        if isinstance(node, dict):
            return {k: without_docs(v) for k, v in node.items() if k != "doc"}
        if isinstance(node, list):
            return [without_docs(v) for v in node]
        return node

    text = json.dumps(without_docs(contract), sort_keys=True, separators=(",", ":"))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big")


def _flat_constants(c: Contract) -> list[tuple[str, int, str]]:
    """(name, value, doc) of every plain number, in the order of the file; the same names in all languages."""
    rows = [
        ("CONTRACT_VERSION", c["contract"]["version"], "contract.version"),
        ("LIST_MAGIC", c["contract"]["list_magic"], "first word of a list"),
        ("IDENTITY_MAGIC", c["contract"]["identity_magic"], "first word of an identity block"),
        ("REGMAP_HASH", contract_hash(c), "identity.regmap_hash of this contract"),
    ]
    rows += [(k.upper(), v["value"], v["doc"]) for k, v in c["parameters"].items()]
    rows += [(k.upper(), v["value"], v["doc"]) for k, v in c["constants"].items()]
    for name, register in c["registers"].items():
        rows.append((f"ADDR_{name}", register["offset"], register["doc"]))
        rows += [(f"{name}_{k}", 1 << v["bit"], v["doc"]) for k, v in register.get("fields", {}).items()]
    rows += [(f"MASTER_{k.upper()}", v["index"], v["doc"]) for k, v in c["masters"].items()]
    for name, enum in c["enums"].items():
        prefix = name.upper().removesuffix("S")
        prefix = {"STATUS_CODE": "STATUS", "STATUS_KIND": "KIND", "STATUS_FLAG": "STATUS_FLAG"}.get(prefix, prefix)
        rows += [(f"{prefix}_{k.upper()}", v["value"], v["doc"]) for k, v in enum.items() if k != "doc"]
    return rows


def _number(name: str, value: int) -> str:
    wide = name.startswith(("ADDR_", "CTRL_", "GIER_", "IP_")) or value >= 0x10000000
    return f"0x{value:X}" if wide and value >= 0 else str(value)


def python_form(c: Contract) -> str:
    """`nearkv_driver/regmap.py`."""
    out = [f"# {LICENCE}", f'"""The kernel contract. {NOTICE}"""', "", "from __future__ import annotations", ""]
    out += ["from enum import IntEnum, IntFlag", "", "from nearkv_driver.layout import Field, Layout", ""]
    for name, value, doc in _flat_constants(c):
        if not name.startswith(("STATUS_", "KIND_", "OPCODE_", "JOB_FLAG_", "ELEMENT_FORMAT_", "IMPLEMENTATION_")):
            out.append(f"{name} = {_number(name, value)}  # {doc}")
    out += ["", f'KERNEL = "{c["contract"]["kernel"]}"', f"HEAD_SIZES = {tuple(c['head_sizes']['values'])}", ""]
    python_names = {
        "opcodes": "Opcode",
        "job_flags": "JobFlag",
        "element_formats": "ElementFormat",
        "status_kinds": "Kind",
        "status_flags": "StatusFlag",
        "implementations": "Implementation",
        "status_codes": "Status",
    }
    for name, enum in c["enums"].items():
        kind = "IntFlag" if name.endswith("flags") else "IntEnum"
        out += ["", f"class {python_names[name]}({kind}):", f'    """{enum["doc"]}"""', ""]
        out += [
            f"    {k.upper()} = {v['value']}" + (f"  # {v['doc']}" if v["doc"] else "")
            for k, v in enum.items()
            if k != "doc"
        ]
        out.append("")
    for name, struct in c["structs"].items():
        out += [
            "",
            f"# {struct['doc']}",
            f"{name.upper()} = Layout(",
            f'    "{name}",',
            f"    {struct['nbytes']},",
            "    (",
        ]
        out += [f'        Field("{f["name"]}", {f["offset"]}, "{f["type"]}"),  # {f["doc"]}' for f in struct["fields"]]
        out += ["    ),", ")"]
    return "\n".join(line.rstrip().removesuffix("  #") for line in out) + "\n"


def cpp_form(c: Contract) -> str:
    """`regmap.hpp` of the HLS form."""
    out = [f"// {LICENCE}", f"// The kernel contract. {NOTICE}", "#pragma once", "", "#include <cstdint>", ""]
    out += ["namespace nearkv {", "namespace regmap {", ""]
    out += [
        "// Where a field lies: its structure's 512-bit word, the lowest bit in that word, its width in bits.",
        "struct Field {",
    ]
    out += ["    unsigned word;", "    unsigned lsb;", "    unsigned width;", "};", ""]
    for name, value, doc in _flat_constants(c):
        type_ = "uint32_t" if 0 <= value < 2**32 else "int64_t"
        type_ = "int32_t" if value < 0 else type_
        text = f"{_number(name, value)}u" if type_ == "uint32_t" else str(value)
        if value == -(2**31):
            text = "-2147483647 - 1"
        out.append(f"constexpr {type_} {name} = {text};" + (f"  // {doc}" if doc else ""))
    sizes = c["head_sizes"]["values"]
    out += ["", f"constexpr unsigned HEAD_SIZE_COUNT = {len(sizes)};"]
    out.append(f"constexpr uint32_t HEAD_SIZES[HEAD_SIZE_COUNT] = {{{', '.join(map(str, sizes))}}};")
    for name, struct in c["structs"].items():
        out += ["", f"// {struct['doc']}", f"namespace {name} {{", f"constexpr unsigned NBYTES = {struct['nbytes']};"]
        for f in struct["fields"]:
            word, rest = divmod(f["offset"], c["parameters"]["word_bytes"]["value"])
            spec = f"{{{word}, {rest * 8}, {TYPE_BITS[f['type']]}}}"
            out.append(f"constexpr Field {f['name']} = {spec};" + (f"  // {f['doc']}" if f["doc"] else ""))
        out.append(f"}}  // namespace {name}")
    out += ["", "}  // namespace regmap", "}  // namespace nearkv"]
    return "// clang-format off\n" + "\n".join(out) + "\n"


def verilog_form(c: Contract) -> str:
    """`regmap.vh` of the RTL."""
    out = [
        f"// {LICENCE}",
        f"// The kernel contract. {NOTICE}",
        "// Offsets of fields are bits from the start of their structure.",
    ]
    out += ["`ifndef NEARKV_REGMAP_VH", "`define NEARKV_REGMAP_VH", ""]
    for name, value, doc in _flat_constants(c):
        if name.startswith("ADDR_"):
            text = f"12'h{value:03X}"
        elif value < 0:
            text = f"(-32'sd{-value})"
        else:
            text = f"32'h{value:08X}" if value >= 0x10000000 else f"32'd{value}"
        out.append(f"`define NK_{name} {text}" + (f" // {doc}" if doc else ""))
    for name, struct in c["structs"].items():
        out += ["", f"// {struct['doc']}", f"`define NK_{name.upper()}_NBYTES {struct['nbytes']}"]
        for f in struct["fields"]:
            prefix = f"`define NK_{name.upper()}_{f['name'].upper()}"
            out += [f"{prefix}_LSB {f['offset'] * 8}", f"{prefix}_WIDTH {TYPE_BITS[f['type']]}"]
    for i, size in enumerate(c["head_sizes"]["values"]):
        out.append(f"`define NK_HEAD_SIZE_{i} 32'd{size}")
    out += [f"`define NK_HEAD_SIZE_COUNT {len(c['head_sizes']['values'])}", "", "`endif"]
    return "\n".join(out) + "\n"


def exp2_form(c: Contract) -> str:
    """`exp2_table.hpp` of the HLS form."""
    # Imported here: the table needs the generated parameters, which may not exist on the first run.
    from nearkv_driver.exp2_table import exp2_table

    base, slope = exp2_table()
    out = [
        f"// {LICENCE}",
        f"// The exp2 table of the weight stage. {NOTICE}",
        "#pragma once",
        "",
        "#include <cstdint>",
        "",
    ]
    out += ["namespace nearkv {", ""]
    for name, values, doc in (
        ("EXP2_BASE", base, "2**(i/1024) with 24 fraction bits, lowered by half the sag of the chord"),
        ("EXP2_SLOPE", slope, "difference to the next entry of 2**(i/1024)"),
    ):
        out += [f"// {doc}", f"constexpr uint32_t {name}[{len(values)}] = {{"]
        out += ["    " + " ".join(f"{v}," for v in values[i : i + 12]) for i in range(0, len(values), 12)]
        out += ["};", ""]
    return "// clang-format off\n" + "\n".join([*out, "}  // namespace nearkv"]) + "\n"


def markdown_form(c: Contract) -> str:
    """`docs/register-map.md`."""
    contract = c["contract"]
    out = [f"<!-- {NOTICE} -->", "# Register map and descriptors", ""]
    out += [
        f"Kernel `{contract['kernel']}`, contract version {contract['version']}, hash `{contract_hash(c):08x}`.",
        "",
    ]
    out += ["Integers are little endian, offsets in bytes. Reserved bytes are zero; anything else is refused.", ""]
    out += ["## Registers (`s_axi_control`)", "", "| offset | name | access | meaning |", "| --- | --- | --- | --- |"]
    for name, register in c["registers"].items():
        out.append(f"| {register['offset']:#04x} | {name} | {register['access']} | {register['doc']} |")
        out += [f"| | {name}.{k} (bit {v['bit']}) | | {v['doc']} |" for k, v in register.get("fields", {}).items()]
    out += ["", "## Masters", "", "| index | name | use |", "| --- | --- | --- |"]
    out += [f"| {v['index']} | `m_axi_{k}` | {v['doc']} |" for k, v in c["masters"].items()]
    out += ["", "## Structures", ""]
    for name, struct in c["structs"].items():
        out += [f"### {name}: {struct['nbytes']} bytes", "", struct["doc"], ""]
        out += ["| offset | field | type | meaning |", "| --- | --- | --- | --- |"]
        out += [f"| {f['offset']} | {f['name']} | {f['type']} | {f['doc']} |" for f in struct["fields"]] + [""]
    out += ["## Codes", ""]
    for name, enum in c["enums"].items():
        out += [f"### {name}", "", enum["doc"], "", "| value | name | meaning |", "| --- | --- | --- |"]
        out += [f"| {v['value']} | {k} | {v['doc']} |" for k, v in enum.items() if k != "doc"] + [""]
    out += ["## Build parameters", "", "| name | value | meaning |", "| --- | --- | --- |"]
    out += [f"| {k} | {v['value']} | {v['doc']} |" for k, v in c["parameters"].items()]
    out += ["", f"Head sizes: {', '.join(map(str, c['head_sizes']['values']))}."]
    return "\n".join(out) + "\n"


FORMS = {
    "driver/nearkv_driver/regmap.py": python_form,
    "fpga/hls/include/regmap.hpp": cpp_form,
    "fpga/hls/include/exp2_table.hpp": exp2_form,
    "fpga/rtl/regmap.vh": verilog_form,
    "docs/register-map.md": markdown_form,
}


def drifted(root: Path) -> list[str]:
    """The generated files under `root` that differ from what its contract generates."""
    contract = load(root / SOURCE)
    differ = []
    for name, form in FORMS.items():
        path = root / name
        if not path.exists() or path.read_text() != form(contract):
            differ.append(name)
    return differ


def main(argv: list[str] | None = None) -> int:
    """Writes every generated file; with --check compares them. 1 where one differs."""
    parser = argparse.ArgumentParser(description="Generate the kernel contract's Python, C++, Verilog and Markdown.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 when a generated file has drifted")
    parser.add_argument("--root", type=Path, default=ROOT, help="repository to work on")
    args = parser.parse_args(argv)
    if args.check:
        differ = drifted(args.root)
        for name in differ:
            sys.stderr.write(f"{name} does not match {SOURCE}; run python -m nearkv_driver.regmap_gen\n")
        return 1 if differ else 0
    contract = load(args.root / SOURCE)
    for name, form in FORMS.items():
        (args.root / name).parent.mkdir(parents=True, exist_ok=True)
        (args.root / name).write_text(form(contract))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
