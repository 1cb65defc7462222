# SPDX-License-Identifier: Apache-2.0
"""fpga/formal: what is claimed of the RTL is proven, planted faults are found, no unclear answer counts as proof."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fpga.formal import __main__ as command
from fpga.formal import engine, netlist
from fpga.formal.catalogue import PROOFS
from fpga.formal.engine import prove
from fpga.formal.proof import Mutation, Proof
from tests.support.rtl_tools import needs

pytestmark = pytest.mark.timeout(900)
needs_pyosys = needs("python:pyosys")

SHORT = [proof for proof in PROOFS if proof.short]
LONG = [proof for proof in PROOFS if not proof.short]
FAULTS = [(proof, mutation) for proof in PROOFS for mutation in proof.mutations]
# cheap ones, one of each method
SHORT_FAULTS = ("fifo 16", "axi_read_stream 64", "axi_write", "row_scan", "crc32c stream 0")


def named(name: str) -> Proof:
    return next(proof for proof in PROOFS if proof.name == name)


@needs_pyosys
@pytest.mark.parametrize("proof", SHORT, ids=lambda proof: proof.name)
def test_is_proven(proof: Proof, tmp_path: Path) -> None:
    outcome = prove(proof, tmp_path)
    assert outcome.verdict == "proved", outcome.detail


@needs_pyosys
@pytest.mark.soak
@pytest.mark.parametrize("proof", LONG, ids=lambda proof: proof.name)
def test_is_proven_too(proof: Proof, tmp_path: Path) -> None:
    outcome = prove(proof, tmp_path)
    assert outcome.verdict == "proved", outcome.detail


@needs_pyosys
@pytest.mark.parametrize("name", SHORT_FAULTS)
def test_a_planted_fault_is_found(name: str, tmp_path: Path) -> None:
    proof = named(name)
    outcome = prove(proof, tmp_path, proof.mutations[0])
    assert outcome.verdict == "failed"
    if proof.method != "exhaustive":
        assert f"{proof.top}.v:" in outcome.detail
        assert outcome.trace is not None
        assert outcome.trace.stat().st_size > 0


@needs_pyosys
@pytest.mark.soak
@pytest.mark.parametrize(("proof", "mutation"), FAULTS)
def test_every_planted_fault_is_found(proof: Proof, mutation: Mutation, tmp_path: Path) -> None:
    assert prove(proof, tmp_path, mutation).verdict == "failed"


def test_the_docs_list_every_proof() -> None:
    text = (engine.RTL.parents[1] / "docs" / "rtl.md").read_text()
    assert [proof.name for proof in PROOFS if f"| {proof.name} | {proof.claim} |" not in text] == []


def test_every_proof_has_a_planted_fault() -> None:
    assert {proof.top for proof in PROOFS} == {proof.top for proof, _ in FAULTS}


@pytest.mark.parametrize(("proof", "mutation"), FAULTS)
def test_a_planted_fault_fits_the_sources(proof: Proof, mutation: Mutation, tmp_path: Path) -> None:
    paths = engine.mutated(proof, mutation, tmp_path)
    assert [path for path in paths if path.name == mutation.path] == [tmp_path / mutation.path]


def test_a_fault_that_fits_nowhere_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"fifo\.v holds 'no such text' 0 times, not once"):
        engine.mutated(named("fifo 16"), Mutation("fifo.v", "no such text", ""), tmp_path)


@needs_pyosys
def test_a_wrong_register_name_is_an_error(tmp_path: Path) -> None:
    outcome = prove(replace(named("fifo 16"), probes={"probe_count": "dut.no_such_reg"}), tmp_path)
    assert outcome.verdict == "error"
    assert "no_such_reg" in outcome.detail


@needs_pyosys
def test_a_netlist_that_lost_its_function_is_an_error(tmp_path: Path) -> None:
    # the mask makes Yosys see one net under two names, and replacing the register by a wire takes both away
    lost = Mutation("crc32c.v", "late_stream ? state_1_reg : state_0_reg", "state_1_reg & {1'b0, {31{1'b1}}}")
    outcome = prove(named("crc32c stream 1"), tmp_path, lost)
    assert outcome.verdict == "error"
    assert "after is not its only output" in outcome.detail


@needs_pyosys
def test_no_time_is_no_proof(tmp_path: Path) -> None:
    outcome = prove(replace(named("fifo 16"), limit_s=0), tmp_path)
    assert (outcome.verdict, outcome.detail) == ("unknown", "no answer in 0 s")


@needs_pyosys
def test_a_cover_that_is_not_reached_is_no_proof(tmp_path: Path) -> None:
    outcome = prove(replace(named("fifo 16"), cycles=4), tmp_path)
    assert outcome.verdict == "failed"
    assert outcome.detail.startswith("not reached in 4 cycles: ")


@needs_pyosys
def test_a_step_that_does_not_follow_is_no_proof(tmp_path: Path) -> None:
    # proven by PDR, which finds what an induction of two cycles lacks
    outcome = prove(replace(named("control_registers"), method="induction"), tmp_path)
    assert outcome.verdict == "unknown"
    assert outcome.detail.endswith("the step to the next does not")


@needs_pyosys
def test_command_fails_when_a_proof_does(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    short = named("row_scan")
    monkeypatch.setattr(command, "PROOFS", (short, replace(short, name="row_scan in vain", limit_s=0)))
    assert command.main(["row_scan", "--folder", str(tmp_path)]) == 1
    printed = capsys.readouterr().out
    assert "row_scan in vain           UNKNOWN" in printed
    assert "1 of 2 as they should be" in printed


@needs_pyosys
def test_command_names_what_it_has(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        command.main(["dram"])
    assert "no proof begins with 'dram'; there are fifo 16, " in capsys.readouterr().err


def test_netlist_evaluates_every_kind_of_gate(tmp_path: Path) -> None:
    # inputs 1, 2 (literals 2, 4); gates a & b, a & !b, !a & b, !a & !b; outputs: the gates, and the first inverted
    path = tmp_path / "gates.aig"
    gates = [(6, 4, 2), (8, 5, 2), (10, 4, 3), (12, 5, 3)]
    deltas = bytes(byte for gate, high, low in gates for byte in (gate - high, high - low))
    path.write_bytes(b"aig 6 2 0 5 4\n6\n8\n10\n12\n7\n" + deltas)
    names = "".join(f"output {i} {i} out\n" for i in range(5))
    path.with_suffix(".aim").write_text(f"input 0 0 a\ninput 1 0 b\n{names}")
    function = netlist.read(path, ("a", "b"), "out")
    numbers = np.arange(64, dtype=np.uint64) % np.uint64(4)
    assert (netlist.numbers_of(netlist.bits_of(numbers, 2)) == numbers).all()
    result = netlist.numbers_of(function.evaluate(netlist.bits_of(numbers, 2)))
    # a is bit 0
    assert result[:4].tolist() == [0b11000, 0b10010, 0b10100, 0b00001]
