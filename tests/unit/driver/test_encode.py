# SPDX-License-Identifier: Apache-2.0
"""What a message holds, and what is refused before any device work."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from nearkv_driver.commands import AttendJob, segments
from nearkv_driver.encode import Message, encode, scale_constant
from nearkv_driver.regmap import (
    HEAD_SIZES,
    JOB,
    LIMIT,
    LIST,
    LIST_MAGIC,
    POSITIONS_MAX,
    SEGMENT,
    STATUS,
    WORD_BYTES,
    JobFlag,
    Opcode,
)
from nearkv_driver.sizes import output_nbytes, padded, state_nbytes
from nearkv_driver.windows import Window, Windows
from nearkv_emulation.kernel import Masters, Region
from nearkv_emulation.model import ModelKernel

BASE, SIZE = 0x4000000000, 1 << 24
CTL, OUT = BASE + (1 << 20), BASE + (2 << 20)
TAIL = BASE + (3 << 20)
WINDOWS = Windows(Window("kv", BASE, SIZE), Window("ctl", BASE, SIZE), Window("out", BASE, SIZE))


def encoded(*jobs: AttendJob, **changes: Any) -> Message:
    given: dict[str, Any] = {"kv_base": BASE, "ctl_address": CTL, "out_address": OUT, "windows": WINDOWS}
    return encode(jobs, **{**given, **changes})


def a_job(d: int = 64, rows: int = 3, **changes: Any) -> AttendJob:
    """48 tokens in two segments and one new row."""
    row = padded(d) * 2
    values: dict[str, Any] = {
        "head_size": d,
        "q": np.arange(1, rows * d + 1, dtype=np.float32).reshape(rows, d),
        "limits": ((0, 49),),
        "scale": 0.125,
        "segments": segments([(32, 0, BASE, BASE + 4096 * 16, 0), (16, 32, BASE + 32 * row, BASE + 4096 * 20, 0)]),
        "new_k": np.full((1, d), 2, np.float16),
        "new_v": np.full((1, d), 3, np.float16),
        "new_first": 48,
    }
    return AttendJob(**{**values, **changes})


def job_fields(message: Message, i: int = 0) -> dict[str, int]:
    return JOB.unpack(message.data[LIST.nbytes + i * JOB.nbytes :].tobytes())


def at(message: Message, address: int, nbytes: int) -> bytes:
    return message.data[address - message.ctl_address :][:nbytes].tobytes()


def test_the_header_names_bases_and_windows() -> None:
    header = LIST.unpack(encoded(a_job(), a_job()).data.tobytes())
    assert header["magic"] == LIST_MAGIC
    assert header["jobs"] == 2
    assert (header["kv_base"], header["ctl_base"], header["out_base"]) == (BASE, CTL, OUT)
    assert (header["out_window"], header["out_window_nbytes"]) == (BASE, SIZE)


@pytest.mark.parametrize("d", HEAD_SIZES)
@pytest.mark.parametrize("rows", [1, 3, 64])
def test_a_job_arrives_with_everything_it_needs(d: int, rows: int) -> None:
    job = a_job(d, rows, window=7, tail_k_addr=TAIL, tail_v_addr=TAIL + 4096, state_in=TAIL + 8192, state_out=TAIL)
    message = encoded(a_job(d, 1), job)
    fields = job_fields(message, 1)
    assert fields["opcode"] == Opcode.ATTEND
    assert (fields["head_size"], fields["rows"], fields["query_tokens"], fields["window"]) == (d, rows, 1, 7)
    assert (fields["segments"], fields["new_tokens"], fields["new_first"]) == (2, 1, 48)
    assert (fields["tail_k_addr"], fields["tail_v_addr"]) == (TAIL, TAIL + 4096)
    assert (fields["state_in"], fields["state_out"]) == (TAIL + 8192, TAIL)

    d_pad = padded(d)
    q = np.frombuffer(at(message, fields["q_addr"], rows * d_pad * 4), np.float32).reshape(rows, d_pad)
    assert np.array_equal(q[:, :d], job.q)
    assert not q[:, d:].any()
    for name, value in (("new_k_addr", 2), ("new_v_addr", 3)):
        row = np.frombuffer(at(message, fields[name], d_pad * 2), np.float16)
        assert row.tolist() == [value] * d + [0] * (d_pad - d)
    assert LIMIT.unpack(at(message, fields["limits_addr"], 8)) == {"first": 0, "limit": 49}
    second = SEGMENT.unpack(at(message, fields["segments_addr"] + SEGMENT.nbytes, SEGMENT.nbytes))
    assert second == dict(zip(SEGMENT.offset, job.segments[1].tolist(), strict=True))
    assert all(fields[name] % WORD_BYTES == 0 for name in fields if name.endswith("_addr"))
    assert fields["out_addr"] == OUT + 2 * STATUS.nbytes + output_nbytes(1, d)
    assert message.reply_nbytes == 2 * STATUS.nbytes + output_nbytes(1, d) + output_nbytes(rows, d)


def test_jobs_of_different_head_sizes_share_a_list() -> None:
    jobs = [a_job(d, rows) for d, rows in ((64, 1), (80, 3), (80, 2), (256, 1), (64, 2))]
    jobs[2] = a_job(80, 2, new_k=None, new_v=None, new_first=0)
    message = encoded(*jobs)
    for i, job in enumerate(jobs):
        fields, d_pad = job_fields(message, i), padded(job.head_size)
        q = np.frombuffer(at(message, fields["q_addr"], len(job.q) * d_pad * 4), np.float32).reshape(-1, d_pad)
        assert np.array_equal(q[:, : job.head_size], job.q)
        if fields["new_tokens"]:
            new_v = np.frombuffer(at(message, fields["new_v_addr"], d_pad * 2), np.float16)
            assert new_v.tolist() == [3] * job.head_size + [0] * (d_pad - job.head_size)


def test_reserved_bytes_are_zero_even_when_the_table_carries_rubbish() -> None:
    rubbish = np.full(2 * SEGMENT.nbytes, 0xEE, np.uint8).view(SEGMENT.dtype)
    clean = a_job().segments
    for name in SEGMENT.offset:
        rubbish[name] = clean[name]
    assert encoded(a_job(segments=rubbish)).data.tobytes() == encoded(a_job()).data.tobytes()


def test_tables_that_are_not_contiguous_are_taken() -> None:
    wide = np.repeat(a_job().segments, 2)
    assert encoded(a_job(segments=wide[::2])).data.tobytes() == encoded(a_job()).data.tobytes()


def test_a_job_without_segments_new_rows_or_output() -> None:
    job = a_job(segments=segments(), new_k=None, new_v=None, new_first=0, output=False, state_out=TAIL)
    fields = job_fields(encoded(job))
    zero = ("segments", "segments_addr", "new_tokens", "new_k_addr", "new_v_addr", "out_addr")
    assert not any(fields[name] for name in zero)


def test_raw_output_is_a_state() -> None:
    message = encoded(a_job(raw=True))
    assert job_fields(message)["flags"] == JobFlag.RAW
    assert message.reply_nbytes == STATUS.nbytes + state_nbytes(3, 64)


@pytest.mark.parametrize("d", HEAD_SIZES)
@pytest.mark.parametrize(("query_heads", "kv_heads"), [(9, 3), (8, 8), (32, 4)])
def test_payload_is_the_traffic_formula(d: int, query_heads: int, kv_heads: int) -> None:
    rows, d_pad = query_heads // kv_heads, padded(d)
    message = encoded(*[a_job(d, rows) for _ in range(kv_heads)])
    assert message.payload_nbytes == query_heads * d_pad * 4 + 2 * kv_heads * d_pad * 2
    assert message.reply_payload_nbytes == query_heads * (d_pad * 4 + 8)
    assert message.payload_nbytes + message.overhead_nbytes == message.data.nbytes
    assert message.reply_payload_nbytes + message.reply_overhead_nbytes == message.reply_nbytes


def test_raw_payload_counts_the_integers() -> None:
    assert encoded(a_job(raw=True)).reply_payload_nbytes == 3 * (3 * 64 * 8 + 4 * 8)


@pytest.mark.parametrize("scale", [64**-0.5, 1.0, 1e-30, 1e30, 2**-20, math.log(2)])
def test_the_scale_constant_is_normalised_and_near(scale: float) -> None:
    mantissa, exponent = scale_constant(scale)
    assert 1 << 23 <= mantissa < 1 << 24
    assert math.ldexp(mantissa, exponent - 24) == pytest.approx(scale * math.log2(math.e), rel=2**-24)


def test_a_mantissa_that_rounds_up_to_two_is_halved() -> None:
    below_one = math.nextafter(1.0, 0.0) / math.log2(math.e)
    assert scale_constant(below_one) == (1 << 23, 1)


BAD_SEGMENT_FIELDS: list[tuple[int, dict[str, int]]] = [
    (0, {"tokens": 0}),
    (1, {"tokens": 0}),
    (0, {"first_position": 8}),
    (1, {"first_position": 33}),
    (1, {"first_position": POSITIONS_MAX}),
    (1, {"first_position": POSITIONS_MAX - 16, "tokens": 17}),
    (1, {"first_position": 0xFFFFFFF0, "tokens": 16}),
    (0, {"k_addr": BASE + 32}),
    (0, {"v_addr": BASE + 8}),
    (0, {"k_addr": 0}),
    (0, {"k_addr": BASE - 64}),
    (0, {"v_addr": BASE + SIZE}),
    (0, {"v_addr": BASE + SIZE - 64}),
    (0, {"k_addr": 2**64 - 64}),
    (1, {"tokens": 200000}),
    (0, {"crc_addr": BASE + 4}),
    (0, {"crc_addr": BASE - 8}),
    (0, {"crc_addr": BASE + SIZE}),
    (0, {"crc_addr": 2**64 - 8}),
    (0, {"crc_addr": BASE, "k_addr": BASE + 64}),
]


@pytest.mark.parametrize(("index", "fields"), BAD_SEGMENT_FIELDS)
def test_segments_that_the_kernel_refuses_are_refused(index: int, fields: dict[str, int]) -> None:
    table = a_job().segments.copy()
    for name, value in fields.items():
        table[name][index] = value
    with pytest.raises(ValueError, match=f"job 1: segment {index}: "):
        encoded(a_job(), a_job(segments=table))
    assert kernel_code(index, fields) == "BAD_SEGMENT"


def kernel_code(index: int, fields: dict[str, int]) -> str:
    """What the model says to the same descriptor."""
    from nearkv_driver.regmap import Status

    memory = np.zeros(SIZE, np.uint8)
    message = encoded(a_job())
    memory[CTL - BASE :][: message.nbytes] = message.data
    where = job_fields(message)["segments_addr"] - BASE + index * SEGMENT.nbytes
    descriptor = memory[where : where + SEGMENT.nbytes].view(SEGMENT.dtype)
    for name, value in fields.items():
        descriptor[name] = value
    regions = [Region(BASE, memory)]
    ModelKernel().run(Masters(regions, regions, regions), BASE, CTL, OUT)
    return Status(STATUS.unpack(memory[OUT - BASE :][: STATUS.nbytes].tobytes())["code"]).name


def test_the_last_page_of_a_checked_segment_must_lie_in_the_window() -> None:
    end = BASE + SIZE - 64
    window = Windows(Window("kv", BASE, SIZE - 64), WINDOWS.ctl, WINDOWS.out)
    table = segments([(31, 0, end - 31 * 128, BASE + (end - 31 * 128) % 4096, 0)])
    job = a_job(segments=table, new_k=None, new_v=None, new_first=0)
    encoded(job, windows=window)
    table["crc_addr"] = BASE
    with pytest.raises(ValueError, match="whole pages"):
        encoded(job, windows=window)


@pytest.mark.parametrize(
    ("rows", "new_first", "names"),
    [
        ([(32, 0), (16, 16)], 48, "segment 0 and segment 1 both hold position 16"),
        ([(32, 16), (17, 0)], 64, "segment 1 and segment 0 both hold position 16"),
        ([(32, 0), (16, 32)], 16, "segment 0 and the new rows both hold position 16"),
    ],
)
def test_a_position_may_be_held_only_once(rows: list[tuple[int, int]], new_first: int, names: str) -> None:
    table = segments([(tokens, first, BASE, BASE, 0) for tokens, first in rows])
    with pytest.raises(ValueError, match=names):
        encoded(a_job(), a_job(segments=table, new_first=new_first))


def test_segments_may_come_in_any_order() -> None:
    table = segments([(16, 64, BASE, BASE, 0), (16, 0, BASE, BASE, 0), (7, 16, BASE, BASE, 0)])
    encoded(a_job(segments=table, new_first=23))


def test_jobs_do_not_share_positions() -> None:
    encoded(a_job(), a_job())


BAD_JOBS: list[tuple[dict[str, Any], str]] = [
    ({"head_size": 72}, "head_size = 72"),
    ({"q": np.zeros((0, 64), np.float32)}, "0 rows"),
    ({"q": np.zeros((65, 64), np.float32)}, "65 rows"),
    ({"q": np.zeros((3, 80), np.float32)}, r"shape \(3, 80\)"),
    ({"limits": ()}, "0 limits"),
    ({"limits": ((0, 1), (0, 1))}, "3 rows do not divide among 2"),
    ({"limits": ((0, POSITIONS_MAX + 1),)}, r"limits\[0\]"),
    ({"limits": ((-1, 1),)}, r"limits\[0\]"),
    ({"window": -1}, "window = -1"),
    ({"window": POSITIONS_MAX}, f"window = {POSITIONS_MAX}"),
    ({"scale": 0.0}, "scale = 0.0"),
    ({"scale": -1.0}, "scale = -1.0"),
    ({"scale": math.nan}, "scale = nan"),
    ({"scale": 2.0**127}, "scale"),
    ({"scale": 2.0**-128}, "scale"),
    ({"new_k": None}, "new_k and new_v come together"),
    ({"new_v": np.zeros((2, 64), np.float16)}, "new_k has 1 rows, new_v 2"),
    ({"new_k": np.zeros((65, 64), np.float16), "new_v": np.zeros((65, 64), np.float16)}, "65 new rows"),
    ({"new_first": 47}, "new_first = 47"),
    ({"new_first": -16}, "new_first = -16"),
    ({"new_first": POSITIONS_MAX}, f"new_first = {POSITIONS_MAX}"),
    ({"new_k": None, "new_v": None}, "new_first = 48 without new rows"),
    ({"new_k": None, "new_v": None, "new_first": 0, "tail_k_addr": TAIL, "tail_v_addr": TAIL}, "without new rows"),
    ({"tail_k_addr": TAIL}, "tail_v_addr = 0x0"),
    ({"tail_k_addr": TAIL + 8, "tail_v_addr": TAIL}, "tail_k_addr"),
    ({"tail_k_addr": TAIL, "tail_v_addr": BASE + SIZE}, "tail_v_addr"),
    ({"state_in": TAIL + 8}, "state_in"),
    ({"state_in": BASE + SIZE - 64}, "state_in"),
    ({"state_out": BASE - 4096}, "state_out"),
    ({"raw": True, "output": False}, "raw"),
]


@pytest.mark.parametrize(("changes", "text"), BAD_JOBS)
def test_bad_jobs_are_refused_by_index_and_value(changes: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=f"job 1: .*{text}"):
        encoded(a_job(), a_job(**changes))


@pytest.mark.parametrize(
    "changes",
    [
        {"q": np.zeros((3, 64), np.float64)},
        {"q": [[0.0] * 64]},
        {"new_k": np.zeros((1, 64), np.float32)},
        {"segments": np.zeros((1, 5), np.uint64)},
        {"segments": [(16, 0, BASE, BASE, 0)]},
    ],
)
def test_arrays_of_another_type_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match="job 0"):
        encoded(a_job(**changes))


def test_lists_have_jobs_and_not_too_many() -> None:
    with pytest.raises(ValueError, match="0 jobs"):
        encoded()
    with pytest.raises(ValueError, match="4097 jobs"):
        encoded(*[a_job()] * 4097)


@pytest.mark.parametrize("changes", [{"ctl_address": BASE + SIZE - 64}, {"out_address": BASE - 64}, {"kv_base": 0}])
def test_message_and_reply_lie_in_their_windows(changes: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="window"):
        encoded(a_job(), **changes)
