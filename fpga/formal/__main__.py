# SPDX-License-Identifier: Apache-2.0
"""`python -m fpga.formal`: proves what the catalogue lists and prints a table; 1 when one is not proven."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from fpga.formal.catalogue import PROOFS
from fpga.formal.engine import prove
from fpga.formal.proof import Mutation, Outcome, Proof
from fpga.formal.tools import tools_missing

METHODS = {
    "induction": "induction",
    "pdr": "PDR",
    "window": "BMC from any state",
    "exhaustive": "evaluation",
}


@dataclass(frozen=True)
class Task:
    """A proof of the RTL as it is, or of a copy with a planted fault, which must fail."""

    proof: Proof
    mutation: Mutation | None = None

    @property
    def name(self) -> str:
        return (
            self.proof.name
            if self.mutation is None
            else " ".join(f"  {self.mutation.old} -> {self.mutation.new}".split())
        )

    def passed(self, outcome: Outcome) -> bool:
        return outcome.verdict == ("proved" if self.mutation is None else "failed")


def tasks(proofs: Sequence[Proof], mutations: bool) -> list[Task]:
    wanted = [Task(proof) for proof in proofs]
    if mutations:
        wanted += [Task(proof, mutation) for proof in proofs for mutation in proof.mutations]
    return wanted


def run(task: Task, folder: Path) -> Outcome:
    return prove(task.proof, folder, task.mutation)


def line(task: Task, outcome: Outcome) -> str:
    verdict = outcome.verdict if task.passed(outcome) else outcome.verdict.upper()
    found = outcome.detail.replace("\n", " ") if outcome.verdict in ("unknown", "error") else outcome.detail
    text = f"{task.name:<26} {verdict:<8} {METHODS[task.proof.method]:<18} {outcome.cpu_s:6.1f} s  {found}"
    return text if outcome.trace is None else f"{text}\n{'':<26} waveform: {outcome.trace}"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m fpga.formal", description=__doc__, allow_abbrev=False)
    parser.add_argument("names", nargs="*", help="only proofs whose name begins so")
    parser.add_argument("--short", action="store_true", help="only the short set, which `make test` runs too")
    parser.add_argument("--mutations", action="store_true", help="also planted faults, which must be found")
    parser.add_argument("--jobs", type=int, default=2, help="proofs at a time (2)")
    parser.add_argument("--folder", type=Path, help="keep the files of each proof there")
    options = parser.parse_args(arguments)
    missing = tools_missing()
    if missing:
        parser.error(f"{missing} is not installed: pip install --group synth")
    chosen = [proof for proof in PROOFS if not options.short or proof.short]
    for name in options.names:
        if not any(proof.name.startswith(name) for proof in chosen):
            parser.error(f"no proof begins with {name!r}; there are {', '.join(proof.name for proof in chosen)}")
    if options.names:
        chosen = [proof for proof in chosen if proof.name.startswith(tuple(options.names))]
    if options.jobs < 1:
        parser.error(f"--jobs is {options.jobs}; at least 1")

    wanted = tasks(chosen, options.mutations)
    bad = 0
    total_s = 0.0
    folder = options.folder or Path(tempfile.mkdtemp(prefix="nearkv-formal-"))
    with ProcessPoolExecutor(options.jobs) as pool:
        # one folder each: the traces of failures stay
        results = [pool.submit(run, task, folder / f"{index:03}") for index, task in enumerate(wanted)]
        for task, result in zip(wanted, results, strict=True):
            outcome = result.result()
            bad += not task.passed(outcome)
            total_s += outcome.cpu_s
            sys.stdout.write(line(task, outcome) + "\n")
            sys.stdout.flush()
    sys.stdout.write(
        f"{len(wanted) - bad} of {len(wanted)} as they should be, {total_s:.0f} s of CPU; files in {folder}\n"
    )
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
