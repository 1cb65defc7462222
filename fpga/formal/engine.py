# SPDX-License-Identifier: Apache-2.0
"""One proof: Verilog with assertions to an AIGER file (Yosys), then proven or refuted (ABC). Knows no property."""

from __future__ import annotations

import json
import re
import resource
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from fpga.formal import exhaustive
from fpga.formal.proof import Mutation, Outcome, Proof, Verdict
from fpga.formal.tools import Clock, OutOfTime, ToolError, abc, yosys

FOLDER = Path(__file__).parent
RTL = FOLDER.parent / "rtl"
PROPERTIES = FOLDER / "properties"
# An assertion that fails exactly where a cover holds.
COVER_MAP = """
module \\$cover (input A, input EN);
    \\$assert reached (.A(!A), .EN(EN));
endmodule
"""


def mutated(proof: Proof, mutation: Mutation | None, folder: Path) -> list[Path]:
    """The sources of a proof, one of them changed; the file names are those of the originals."""
    paths = [RTL / source for source in proof.sources] + [header(source, folder) for source in proof.cut]
    if mutation is None:
        return paths
    if mutation.path not in proof.sources:
        raise ValueError(f"{proof.name} does not read {mutation.path}: {', '.join(proof.sources)}")
    text = (RTL / mutation.path).read_text()
    if text.count(mutation.old) != 1:
        raise ValueError(f"{mutation.path} holds {mutation.old!r} {text.count(mutation.old)} times, not once")
    changed = folder / mutation.path
    changed.write_text(text.replace(mutation.old, mutation.new))
    return [changed if path.name == mutation.path else path for path in paths]


def header(source: str, folder: Path) -> Path:
    """The ports of a module without what is in it."""
    text = (RTL / source).read_text()
    start, end = text.index("\nmodule "), text.index("\n);")
    path = folder / f"cut_{source}"
    path.write_text(f"(* blackbox *){text[start:end]}\n);\nendmodule\n")
    return path


def prepare(proof: Proof, sources: Sequence[Path]) -> list[str]:
    """Yosys commands up to one flat module with registers, gates and formal cells."""
    parameters = "".join(f" -chparam {name} {value}" for name, value in proof.parameters.items())
    files = " ".join(str(path) for path in [PROPERTIES / f"{proof.top}.v", *sources])
    return [
        f"read_verilog -formal -I {RTL} {files}",
        f"hierarchy -check -top {proof.top}{parameters}",
        "proc",
        *(["cutpoint -blackbox"] if proof.cut else []),
        "flatten -noscopeinfo",
        *(f"connect -set \\{wire} \\{register}" for wire, register in proof.probes.items()),
        *(
            command
            for register, wire in proof.replaced.items()
            for command in (f"connect -unset \\{register}", f"connect -set \\{register} \\{wire}")
        ),
        "opt_clean",
        "memory -nomap",
        "memory_map -formal",
        "opt -full",
        "chformal -early",
        "async2sync",
        "chformal -lower",
    ]


def to_aiger(name: str) -> list[str]:
    # Registers without a value at power-up start with anything; an undriven net does anything in each cycle.
    return [
        "opt_clean",
        "setundef -undriven -anyseq",
        "formalff -clk2ff -ff2anyinit -hierarchy",
        "dffunmap",
        "simplemap",
        "techmap",
        "opt -fast",
        "aigmap",
        "opt_clean",
        f"write_aiger -I -B -L -zinit -no-startoffset -map {name}.aim -ywmap {name}.json {name}.aig",
    ]


def statuses(output: str) -> list[Verdict]:
    """What each `print_status` of ABC said."""
    verdicts: dict[str, Verdict] = {"1": "proved", "0": "failed", "-1": "unknown"}
    return [verdicts[found] for found in re.findall(r"^Status = +(-?\d+)", output, re.MULTILINE)]


def status(output: str) -> Verdict:
    found = statuses(output)
    if not found:
        raise ToolError(output[-1500:])
    return found[-1]


def prove(proof: Proof, folder: Path, mutation: Mutation | None = None) -> Outcome:
    """Proves one; `folder` receives the files and, on a failure, a waveform."""
    folder.mkdir(parents=True, exist_ok=True)
    clock = Clock(proof.limit_s)
    with cpu_time() as spent:
        trace: Path | None = None
        verdict: Verdict
        try:
            verdict, detail = check(proof, folder, mutation, clock)
            if proof.method == "exhaustive":
                pass
            elif verdict == "failed":
                detail = explain(proof, folder, mutation, clock)
                trace = folder / "trace.vcd"
            elif verdict == "proved" and mutation is None:
                missed = unreached(proof, folder, clock)
                if missed:
                    verdict, detail = "failed", f"not reached in {proof.cycles} cycles: {', '.join(missed)}"
        except OutOfTime:
            verdict, detail = "unknown", f"no answer in {proof.limit_s} s"
        except ToolError as error:
            verdict, detail = "error", str(error)
    return Outcome(verdict, detail, spent(), trace)


def check(proof: Proof, folder: Path, mutation: Mutation | None, clock: Clock) -> tuple[Verdict, str]:
    sources = mutated(proof, mutation, folder)
    if proof.method == "exhaustive":
        yosys([*prepare(proof, sources), *exhaustive.commands(proof.top, folder)], "proof", folder, clock)
        try:
            fault, detail = exhaustive.judged(proof.top, folder)
        except ValueError as error:  # what Yosys wrote is not the function that was asked for
            raise ToolError(str(error)) from error
        return ("failed", fault) if fault else ("proved", detail)
    yosys([*prepare(proof, sources), "chformal -cover -remove", *to_aiger("proof")], "proof", folder, clock)
    load = ["read_aiger proof.aig", "fold", "strash", "orpos"]
    finish = ["print_status", "write_cex -a cex.aiw"]
    if proof.method == "window":
        # CaDiCaL: five times faster than the others on arithmetic
        return bounded(load, proof.depth, finish, folder, clock, solver=" -c")
    if proof.method == "induction":
        verdict, detail = bounded(load, proof.depth, finish, folder, clock)
        if verdict != "proved":
            return verdict, detail
        output = abc([*load, f"ind -F {proof.depth}"], folder, clock)
        if "Networks are equivalent" in output:
            return "proved", f"{proof.depth} cycles"
        # No proof; perhaps there is a counterexample further on.
        verdict, detail = bounded(load, proof.cycles, finish, folder, clock)
        return (
            ("unknown", f"{detail} hold, the step to the next does not") if verdict == "proved" else (verdict, detail)
        )
    # Registers and nets that always agree become one; often nothing is left to prove.
    abc([*load, "scorr", "write_aiger scorr.aig"], folder, clock)
    if output_is_false(folder / "scorr.aig"):
        return "proved", "signal correspondence"
    output = abc([*load, "scorr", "pdr", *finish], folder, clock)
    verdict = status(output)
    frames = re.findall(r"Invariant F\[(\d+)\]", output)
    if verdict == "proved" and "Verification of invariant" in output and "was successful" not in output:
        raise ToolError(output[-1500:])
    return verdict, f"invariant at frame {frames[-1]}" if frames else "no invariant needed"


def bounded(
    load: Sequence[str], cycles: int, finish: Sequence[str], folder: Path, clock: Clock, solver: str = ""
) -> tuple[Verdict, str]:
    output = abc([*load, f"bmc3{solver} -F {cycles}", *finish], folder, clock)
    verdict = status(output)
    if verdict == "unknown" and f"No output asserted in {cycles} frames" in output:
        verdict = "proved"
    return verdict, f"{cycles} cycles"


def output_is_false(path: Path) -> bool:
    """Whether the only output of an AIGER file is the constant 0."""
    with path.open("rb") as file:
        header = file.readline().split()
        latches, outputs = int(header[3]), int(header[4])
        literals = [file.readline() for _ in range(latches + outputs)][latches:]
    return header[0] == b"aig" and len(literals) == 1 and literals[0].strip() == b"0"


def explain(proof: Proof, folder: Path, mutation: Mutation | None, clock: Clock) -> str:
    """Names the assertion that a counterexample breaks, and writes its waveform."""
    names = json.loads((folder / "proof.json").read_text())["asserts"]
    search = f"bmc3 -c -F {max(proof.cycles, proof.depth) + 20}"
    output = abc(["read_aiger proof.aig", "fold", "strash", search, "write_cex -a cex.aiw"], folder, clock)
    found = re.search(r"Output (\d+) .*asserted in frame +(\d+)", output)
    if found is None:
        return "a counterexample beyond the cycles that were searched for the assertion"
    index, cycle = int(found[1]), int(found[2])
    # `fold` may add an output of its own behind those of the assertions
    line = re.sub(r".*/(\w+\.v:\d+).*", r"\1", str(names[index][-1])) if index < len(names) else "an assumption"
    complete(folder)
    has_clock = "input wire clk" in (PROPERTIES / f"{proof.top}.v").read_text()
    script = [
        *prepare(proof, mutated(proof, mutation, folder)),
        "opt_clean",
        "setundef -undriven -anyseq",
        "formalff -clk2ff -ff2anyinit -hierarchy",
        "dffunmap",
        f"sim{' -clock clk' if has_clock else ''} -map proof.aim -r cex.aiw -vcd trace.vcd",
    ]
    yosys(script, "replay", folder, clock)
    return f"breaks {line} in cycle {cycle}"


def complete(folder: Path) -> None:
    """Makes an AIGER witness of ABC's counterexample: latches that ABC removed come back, and all start at 0."""
    header = (folder / "proof.aig").read_bytes().split(b"\n", 1)[0].split()
    inputs, latches = int(header[2]), int(header[3])
    lines = [line for line in (folder / "cex.aiw").read_text().splitlines() if not line.startswith("#")]
    cycles = [line for line in lines[1:] if len(line) == inputs]
    if len(cycles) != len(lines) - 1:
        raise ToolError(f"a counterexample of {len(lines)} lines with {len(cycles)} cycles of {inputs} inputs")
    (folder / "cex.aiw").write_text("\n".join(["1", "b0", "0" * latches, *cycles, "."]) + "\n")


def unreached(proof: Proof, folder: Path, clock: Clock) -> list[str]:
    """Covers that no run reaches: an assumption that excludes everything would prove anything."""
    (folder / "cover_map.v").write_text(COVER_MAP)
    script = [
        *prepare(proof, mutated(proof, None, folder)),
        "chformal -assert -remove",
        "techmap -map cover_map.v",
        *to_aiger("cover"),
    ]
    yosys(script, "cover", folder, clock)
    names = [str(entry) for entry in json.loads((folder / "cover.json").read_text())["asserts"]]
    if not names:
        return ["anything (no cover is written)"]
    # One at a time: `bmc3 -a` of this ABC sometimes crashes when the last of several is found.
    search = f"bmc3{' -c' if proof.method == 'window' else ''} -F {proof.cycles}"
    commands = [
        command
        for index in range(len(names))
        for command in (
            "read_aiger cover.aig",
            "fold",
            "strash",
            "&get -n",
            f"&cone -O {index}",
            "&put",
            search,
            "print_status",
        )
    ]
    found = statuses(abc(commands, folder, clock))
    if len(found) != len(names):
        raise ToolError(f"ABC answered {len(found)} of {len(names)} covers")
    return [name for name, verdict in zip(names, found, strict=True) if verdict != "failed"]


@contextmanager
def cpu_time() -> Iterator[Callable[[], float]]:
    """Seconds of CPU that this process and its children took since."""
    before = cpu_s()
    yield lambda: cpu_s() - before


def cpu_s() -> float:
    both = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in both)
