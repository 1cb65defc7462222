# SPDX-License-Identifier: Apache-2.0
"""The cocotb benches of the modules, on Verilator and on Icarus; and that a failing bench fails the whole command."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.rtl_tools import COCOTB, VERILATOR, needs, needs_icarus, patient

# Modules on a bus: in every run on both simulators.
PROTOCOL = ("axi_read_stream", "axi_read_arbiter", "axi_write", "control_registers", "fifo")
MODULES = (
    *PROTOCOL,
    "crc32c",
    "exp2",
    "score_unit",
    "float_convert",
    "element_decode",
    "weight_align",
    "bin_lane",
    "array_row",
    "header_check",
    "job_check",
    "segment_check",
    "window_check",
    "limit_load",
    "query_load",
    "state_load",
    "row_scan",
    "bin_address",
    "checksum_fetch",
    "block_buffer",
    "query_buffer",
    "row_table",
    "weight_buffer",
    "bin_store",
    "bin_update",
    "score_stage",
    "tile_top",
    "segment_walk",
    "step_reader",
    "block_writer",
    "step_judge",
    "array_sequencer",
    "list_control",
    "job_prepare",
    "job_finish",
)
ROOT = Path(__file__).parents[2]

pytestmark = [needs(*COCOTB), patient]


def run(module: str, bench: str, simulator: str, folder: Path) -> None:
    from tests.rtl.simulate import simulate

    simulate(module, bench, simulator, folder)


@needs_icarus
@pytest.mark.parametrize("module", MODULES)
def test_module_on_icarus(module: str, tmp_path: Path) -> None:
    run(module, f"bench_{module}", "icarus", tmp_path)


@needs(*VERILATOR)
@pytest.mark.parametrize("module", [m if m in PROTOCOL else pytest.param(m, marks=pytest.mark.soak) for m in MODULES])
def test_module_on_verilator(module: str, tmp_path: Path) -> None:
    run(module, f"bench_{module}", "verilator", tmp_path)


@needs_icarus
@pytest.mark.parametrize(
    ("bench", "told"),
    [
        ("bench_that_fails", "never_holds"),
        ("bench_without_tests", "without results|no test of bench_without_tests ran"),
        ("bench_that_dies", r"\['dies'\] failed|without results|half a results file"),
    ],
)
def test_a_bad_bench_fails(bench: str, told: str, tmp_path: Path) -> None:
    """One that fails, one in which nothing runs, one whose simulator is killed."""
    with pytest.raises(AssertionError, match=told):
        run("fifo", bench, "icarus", tmp_path)


PLANTED = """
from pathlib import Path
from tests.rtl.simulate import simulate

def test_planted(tmp_path: Path) -> None:
    simulate("fifo", {bench!r}, "icarus", tmp_path)
"""


@needs_icarus
@pytest.mark.parametrize(("bench", "code"), [("bench_that_fails", 1), ("bench_fifo", 0)])
def test_the_command_ends_with_the_verdict(bench: str, code: int, tmp_path: Path) -> None:
    """The command of `make test` on a planted bench: its exit code, in two workers as there."""
    (tmp_path / "test_planted.py").write_text(PLANTED.format(bench=bench))
    makefile = (ROOT / "Makefile").read_text()
    assert "-m pytest -n $(TEST_WORKERS) --dist loadgroup -m 'not soak'" in makefile, "make test runs another command"
    command = [sys.executable, "-m", "pytest", "-n", "2", "--dist", "loadgroup", "-m", "not soak"]
    command += ["-c", str(ROOT / "pyproject.toml"), "--rootdir", str(ROOT), "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, str(tmp_path / "test_planted.py")], cwd=ROOT, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == code, done.stdout[-2000:]
    assert ("never_holds" in done.stdout) == bool(code)


# Modules without a bench of their own, and the bench of the one around them.
AROUND = {
    "step_record": "block_writer",
    "job_turns": "list_control",
    "header_load": "job_prepare",
    "segment_load": "job_prepare",
    "job_fetch": "job_prepare",
    "bin_words": "job_finish",
}

# (module, what stands there, what is planted)
FAULTS = (
    ("axi_read_stream", "7'd64 - {1'b0, word_reg[5:0]}", "7'd64"),
    ("axi_read_stream", "owed_reg + burst_wide <= ROOM", "1'b1"),
    ("axi_read_stream", "fifo_valid && (m_ready || flush)", "fifo_valid && m_ready"),
    ("axi_read_stream", "ar_valid_reg && !rst;", "ar_valid_reg;"),
    ("axi_read_arbiter", "~s_ar_valid + 1'b1", "~s_ar_valid + 2'd2"),
    ("axi_read_arbiter", "!valid_reg || m_axi_arready", "1'b1"),
    ("axi_write", "m_axi_bresp[1]", "m_axi_bresp[0]"),
    ("axi_write", "&& !kept", ""),
    ("axi_write", "|| m_axi_wready) && room", "|| m_axi_wready)"),
    ("limit_load", "first[21:0] > edge_low ?", "first[21:0] < edge_low ?"),
    ("limit_load", "second_reg <= !first_bad", "second_reg <= first_bad"),
    ("query_load", "floor_value + 25'sd1", "floor_value"),
    ("query_load", "10'sd172", "10'sd171"),
    ("query_load", "wire in_padding = half_last && in_last", "wire in_padding = 1'b0"),
    ("state_load", "s_data[i*64+49+:15] != {15", "s_data[i*64+50+:14] != {14"),
    ("state_load", "!= {1'b1, 19'd0}", "!= 20'd0"),
    ("row_scan", "!s_half && high_next", "high_next"),
    ("row_scan", "top_next == 5'd31", "top_next == 5'd30"),
    ("window_check", "range_end <= window_end", "range_end < window_end"),
    ("bin_address", "big ? place[9] : parity", "parity"),
    ("checksum_fetch", "entry_reg == 3'd7", "entry_reg == 3'd6"),
    ("checksum_fetch", "k_room && v_room", "k_room"),
    ("block_buffer", "top_mem[t_addr]", "top_mem[r_addr[10:3]]"),
    ("query_buffer", "{r_parity, r_group, r_chunk}", "{1'b0, r_group, r_chunk}"),
    ("row_table", "w_limit_row[2:0] == SLOT", "w_shift_row[2:0] == SLOT"),
    ("weight_buffer", "if (r_valid) begin", "if (1'b1) begin"),
    ("bin_store", "wire write = u_write || s_valid && {s_bin, s_half} == PLACE", "wire write = u_write || s_valid"),
    ("bin_store", "!u_write;", "1'b1;"),
    ("bin_update", "one[24:0] - 25'sd9", "one[24:0] - 25'sd8"),
    # Chunk 1 would do as well: the sums of a tile's weights stand for all words of it.
    ("bin_update", "chunk == 3'd0", "chunk != 3'd7"),
    ("score_stage", "< high", "<= high"),
    ("score_stage", "clamps & tag[5:2]", "clamps"),
    ("tile_top", "ahead_reg < 3'd2", "ahead_reg < 3'd4"),
    ("tile_top", "written > {2'd0, nth}", "written >= {2'd0, nth}"),
    ("tile_top", "!old_seen_reg || up_old", "up_old"),
    ("tile_top", "assign s_ready = !stored", "assign s_ready = 1'b1"),
    ("segment_walk", "ends_block || !follows && ends_segment;", "ends_block;"),
    ("segment_walk", "checked_reg && ends_segment ?", "ends_segment ?"),
    ("segment_walk", "< segments_reg && !over_reg;", "< segments_reg;"),
    ("segment_walk", "emit && piece_ready && (!wants_crc || crc_ready)", "emit && piece_ready"),
    ("segment_walk", "{40'd0, index_reg} - 58'd16", "{40'd0, index_reg} - 58'd15"),
    ("step_reader", "ahead_reg == 2'd1 && !piece_valid && walk_idle", "ahead_reg == 2'd1 && !piece_valid"),
    ("step_reader", "is_new ? new_cmd_ready : kv_cmd_ready", "kv_cmd_ready"),
    ("step_reader", "(!announce || visit_ready)", "1'b1"),
    ("step_reader", ".DEPTH(512)", ".DEPTH(128)"),
    ("block_writer", "(!step_first || slot_free)", "1'b1"),
    ("block_writer", "checked && in_pages[5:0] == 6'd63", "in_pages[5:0] == 6'd63"),
    ("block_writer", "b_payload_reg && b_nonfinite", "b_nonfinite"),
    ("block_writer", "!nothing && !is_new};", "!nothing};"),
    (
        "step_judge",
        "step_error || step_crc_error ? {address",
        "step_error || step_crc_error && !step_mismatch ? {address",
    ),
    ("step_judge", "!mismatch_reg[is_v] ? page :", "1'b1 ? page :"),
    ("step_judge", "!sound_reg && !faulty_reg;", "!faulty_reg;"),
    ("step_judge", "step_error ? step_error_words : step_words", "step_words"),
    ("array_sequencer", "pending_reg != 2'd2 && k_can_start", "pending_reg == 2'd0 && k_can_start"),
    ("array_sequencer", "visit_valid && loaded[k_parity]", "visit_valid"),
    ("array_sequencer", "pending_reg == 2'd1 && v_unit_valid ? walk_v : CHOOSE", "CHOOSE"),
    ("array_sequencer", "v_inside_reg || tiles_reg != 3'd0;", "1'b1;"),
    ("step_record", "bad_reg && !step_first_reg", "bad_reg"),
    ("list_control", "&& !walk_lost;", ";"),
    ("list_control", "judge_faulty && ending_loaded;", "judge_faulty;"),
    ("list_control", "refused && !ending_loaded;", "refused;"),
    ("list_control", "readers_idle && w_idle", "readers_idle"),
    ("list_control", "fault_reg || w_failed", "fault_reg"),
    ("job_turns", "ahead == 13'd2 && written", "ahead == 13'd2"),
    ("job_turns", "if (prepare_enters) loaded_reg", "if (1'b0) loaded_reg"),
    ("job_turns", "if (ended && prepare_faulty) handing_reg", "if (1'b0) handing_reg"),
    ("job_prepare", "is_big || big_before_reg || has_state", "is_big || has_state"),
    ("job_prepare", "read_error ? read_fault : load_fault", "load_bad ? load_fault : read_fault"),
    ("job_prepare", "sound_reg <= !segments_faulty;", "sound_reg <= 1'b1;"),
    ("header_load", "lost || check_bad", "check_bad"),
    ("segment_load", "more && flying_reg == 2'd0 && s_valid && s_error", "more && s_valid && s_error"),
    ("segment_load", "(near_ready || !near)", "near_ready"),
    ("job_fetch", "next_index == jobs ? 25'd0 : 25'd4", "25'd4"),
    ("job_finish", "(w_idle || part_reg != OUTPUT)", "1'b1"),
    ("job_finish", "r_error && !read_error_reg", "r_error"),
    ("job_finish", "part_reg == STATE || raw", "raw"),
    ("bin_words", "integers ? row_reg[0] :", "1'b0 ? row_reg[0] :"),
    ("bin_words", ".SPARE(16)", ".SPARE(0)"),
)


@pytest.mark.soak
@needs_icarus
@pytest.mark.parametrize(("module", "there", "planted"), FAULTS)
def test_a_planted_fault_is_caught(module: str, there: str, planted: str, tmp_path: Path) -> None:
    from tests.rtl.simulate import simulate

    rtl, bench = tmp_path / "rtl", AROUND.get(module, module)
    shutil.copytree(ROOT / "fpga" / "rtl", rtl)
    source = rtl / f"{module}.v"
    text = source.read_text()
    assert there in text, f"{module}.v has no {there!r}: plant the fault elsewhere"
    source.write_text(text.replace(there, planted))
    with pytest.raises(AssertionError, match=r"failed|without results"):
        simulate(bench, f"bench_{bench}", "icarus", tmp_path, rtl=rtl)
