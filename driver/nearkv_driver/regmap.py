# SPDX-License-Identifier: Apache-2.0
"""The kernel contract. Generated from fpga/regmap.toml by nearkv_driver.regmap_gen: edit that file."""

from __future__ import annotations

from enum import IntEnum, IntFlag

from nearkv_driver.layout import Field, Layout

CONTRACT_VERSION = 1  # contract.version
LIST_MAGIC = 0x4C564B4E  # first word of a list
IDENTITY_MAGIC = 0x49564B4E  # first word of an identity block
REGMAP_HASH = 0x8FB079F3  # identity.regmap_hash of this contract
WORD_BYTES = 64  # bytes in one AXI beat (512 bits)
PAGE_BYTES = 4096  # unit of flash writes and of checksums
LANES = 32  # elements processed per beat
LANE_PAD = 32  # rows are padded in storage to a multiple of this many elements
TILE_TOKENS = 16  # tokens summed exactly before they enter the bins; at absolute multiples
BLOCK_TOKENS = 128  # tokens buffered on chip at a time; at absolute multiples
ROWS_MAX = 64  # query rows of one job
QUERY_TOKENS_MAX = 64  # query tokens of one job
NEW_TOKENS_MAX = 64  # new K and V rows that one job may carry
POSITIONS_MAX = 2097152  # positions are below this: 2**17 tiles, so that a bin cannot overflow
JOBS_MAX = 4096  # jobs of one list
SEGMENTS_MAX = 131072  # segments of one job
CRC_POLY = 0x82F63B78  # CRC-32C (Castagnoli), reflected
SIGNIFICAND_BITS = 24  # block integers of q, K and V, with sign
SCORE_FRACTION_BITS = 24  # fraction bits of a score, in log2 units
SCORE_BITS = 48  # a score with sign; saturates
WEIGHT_FRACTION_BITS = 24  # fraction bits of a weight's mantissa in [1, 2)
WEIGHT_TABLE_BITS = 10  # log2 of the number of entries in the exp2 table
ALIGNED_BITS = 26  # bits of a weight aligned inside its tile
TILE_BITS = 54  # a tile's sum of products, with sign
BIN_BITS = 32  # width of a bin
BINS = 3  # bins kept per accumulator
BIN_REGISTER_BITS = 50  # register of one bin, with sign; never carries
K_EXPONENT_MIN = -13  # least block exponent of an FP16 row
Q_EXPONENT_MIN = -125  # least block exponent of an FP32 row
EMPTY_T = -2147483648  # T of a row that has seen no visible token
STATE_T_LIMIT = 524288  # a state_in with |T| of at least this is refused
NOT_APPLICABLE = 0xFFFFFFFF  # a status field that the code does not speak of
REGISTER_GONE = 0xFFFFFFFF  # what CTRL reads when the card has left the bus
ADDR_CTRL = 0x0  # control and state of the kernel; 0xFFFFFFFF means that the card is gone
CTRL_START = 0x1  # write 1 to start; reads 1 until the list is accepted. A start while busy is held once
CTRL_DONE = 0x2  # the list has ended; stays until CONTINUE
CTRL_IDLE = 0x4  # drops in the cycle of START
CTRL_READY = 0x8  # the list has been accepted; clears on read
CTRL_CONTINUE = 0x10  # write 1 to clear DONE
CTRL_AUTO_RESTART = 0x80  # not used; writes are ignored
ADDR_GIER = 0x4  # global interrupt enable
GIER_ENABLE = 0x1  # 1 lets the interrupt line rise
ADDR_IP_IER = 0x8  # interrupt enable by cause
IP_IER_DONE = 0x1  # interrupt when a list has ended
IP_IER_READY = 0x2  # interrupt when a list has been accepted
ADDR_IP_ISR = 0xC  # interrupt status; write 1 to toggle
IP_ISR_DONE = 0x1  # a list has ended
IP_ISR_READY = 0x2  # a list has been accepted
ADDR_KV = 0x10  # base pointer of m_axi_kv: any address in its bank
ADDR_CTL = 0x1C  # base pointer of m_axi_ctl: the address of the list header
ADDR_OUT = 0x28  # base pointer of m_axi_out: the address of the status blocks, one per job
MASTER_KV = 0  # m_axi_kv: reads K and V
MASTER_CTL = 1  # m_axi_ctl: reads the list, q, new rows, limits, checksums, state_in
MASTER_OUT = 2  # m_axi_out: writes outputs, status, state_out, tail

KERNEL = "nearkv_attend"
HEAD_SIZES = (64, 80, 96, 112, 128, 256)


class Opcode(IntEnum):
    """What a job asks for."""

    IDENTIFY = 1  # write the identity block
    ATTEND = 2  # exact attention of the rows over segments and new rows


class JobFlag(IntFlag):
    """Bits of job.flags."""

    RAW = 1  # write the output as a state (integers) instead of FP32


class ElementFormat(IntEnum):
    """How K and V elements are stored."""

    FP16 = 0  # IEEE 754 binary16


class Kind(IntEnum):
    """Which operand a status speaks of."""

    K = 0
    V = 1
    Q = 2
    STATE = 3


class StatusFlag(IntFlag):
    """Bits of status.flags."""

    SATURATED = 1  # a score left 48 bits and was clamped


class Implementation(IntEnum):
    """Who computed it."""

    HLS = 1  # fpga/hls, compiled by g++ or synthesised
    RTL = 2  # fpga/rtl
    MODEL = 3  # the NumPy model


class Status(IntEnum):
    """How a job ended. Fields that a code does not speak of hold not_applicable."""

    OK = 1  # outputs are valid
    NOT_RUN = 2  # an earlier job of the list failed
    BAD_LIST = 16  # the list header is refused; detail = offset of the field
    BAD_JOB = 17  # the job is refused; detail = offset of the field
    BAD_LIMIT = 18  # a limit structure is refused; position = query token, detail = offset of the field
    BAD_SEGMENT = 19  # a segment is refused; segment, detail = offset of the field
    CRC_MISMATCH = 32  # a page differs from its checksum; segment, page, kind
    NONFINITE_KV = 33  # Inf or NaN in K or V; segment, kind, position
    NONFINITE_Q = 34  # Inf or NaN in q; kind, position = row
    BAD_STATE = 35  # state_in cannot be a state; kind, position = row
    AXI_READ = 48  # a read was answered with SLVERR or DECERR; detail = master, address
    AXI_WRITE = 49  # a write was answered with SLVERR or DECERR; detail = master, address


# List header, at CTL. Its jobs follow it directly.
LIST = Layout(
    "list",
    128,
    (
        Field("magic", 0, "u32"),  # contract.list_magic
        Field("version", 4, "u32"),  # contract.version
        Field("jobs", 8, "u32"),  # 1 to jobs_max
        Field("kv_base", 16, "u64"),  # value of the KV register
        Field("ctl_base", 24, "u64"),  # value of the CTL register
        Field("out_base", 32, "u64"),  # value of the OUT register
        Field("kv_window", 40, "u64"),  # lowest address that m_axi_kv may touch; a multiple of 64
        Field("kv_window_nbytes", 48, "u64"),  # size of that window; a multiple of 64
        Field("ctl_window", 56, "u64"),  # the same for m_axi_ctl
        Field("ctl_window_nbytes", 64, "u64"),
        Field("out_window", 72, "u64"),  # the same for m_axi_out
        Field("out_window_nbytes", 80, "u64"),
    ),
)

# One job: all rows that share one KV head of one sequence. An identify job has zero in every field but opcode and out_addr.
JOB = Layout(
    "job",
    256,
    (
        Field("opcode", 0, "u32"),  # see opcodes
        Field("flags", 4, "u32"),  # see job_flags
        Field("head_size", 8, "u32"),  # d, one of head_sizes; rows lie d_pad elements apart
        Field("element_format", 12, "u32"),  # see element_formats
        Field("rows", 16, "u32"),  # 1 to rows_max; row r belongs to query token r / (rows / query_tokens)
        Field("query_tokens", 20, "u32"),  # 1 to query_tokens_max, divides rows
        Field("scale_mantissa", 24, "u32"),  # scale * log2(e) = scale_mantissa * 2**(scale_exponent - 24), mantissa in [2**23, 2**24)
        Field("scale_exponent", 28, "i32"),  # -126 to 127
        Field("window", 32, "u32"),  # 0 = none; else only the last `window` positions before the causal limit are visible; below positions_max
        Field("segments", 36, "u32"),  # 0 to segments_max
        Field("new_tokens", 40, "u32"),  # 0 to new_tokens_max rows that travel with the list; they act as one more segment, after the others
        Field("new_first", 44, "u32"),  # position of the first new row; same rule as segment.first_position; 0 without new rows
        Field("q_addr", 48, "u64"),  # ctl: FP32 [rows, d_pad]
        Field("limits_addr", 56, "u64"),  # ctl: one `limit` structure per query token
        Field("segments_addr", 64, "u64"),  # ctl: `segment` structures; 0 without segments
        Field("new_k_addr", 72, "u64"),  # ctl: FP16 [new_tokens, d_pad]; 0 without new rows
        Field("new_v_addr", 80, "u64"),  # ctl: FP16 [new_tokens, d_pad]; 0 without new rows
        Field("tail_k_addr", 88, "u64"),  # out: where the new K rows are copied; 0 = not
        Field("tail_v_addr", 96, "u64"),  # out: where the new V rows are copied; zero exactly when tail_k_addr is
        Field("state_in", 104, "u64"),  # ctl: state to start from; 0 = empty
        Field("state_out", 112, "u64"),  # out: where the state is written; 0 = not
        Field("out_addr", 120, "u64"),  # out: where the output is written; 0 = not
    ),
)

# What one query token sees: first <= position < limit, and with a window also position + window >= limit.
LIMIT = Layout(
    "limit",
    8,
    (
        Field("first", 0, "u32"),  # first visible position; at most positions_max
        Field("limit", 4, "u32"),  # causal limit: one past the last visible position; at most positions_max
    ),
)

# Consecutive tokens of one KV head whose K rows lie together in memory, and whose V rows do.
SEGMENT = Layout(
    "segment",
    64,
    (
        Field("tokens", 0, "u32"),  # at least 1; first_position + tokens <= positions_max
        Field("first_position", 4, "u32"),  # a multiple of 16, or exactly where the previous segment ended
        Field("k_addr", 8, "u64"),  # kv: FP16 [tokens, d_pad], a multiple of 64
        Field("v_addr", 16, "u64"),  # kv: FP16 [tokens, d_pad], a multiple of 64
        Field("crc_addr", 24, "u64"),  # ctl: one `page_crc` per page that the segment touches, a multiple of 8; 0 = unchecked. Checked segments are read in whole pages, so k_addr and v_addr agree modulo page_bytes and the whole pages lie in the window
    ),
)

# CRC-32C of the page of K and of the page of V that hold the same tokens.
PAGE_CRC = Layout(
    "page_crc",
    8,
    (
        Field("k", 0, "u32"),  # CRC-32C of the 4096 bytes of the K page
        Field("v", 4, "u32"),  # CRC-32C of the 4096 bytes of the V page
    ),
)

# Written at OUT + 64 * job when that job ends. A list that is refused is reported in the first one with job = not_applicable.
STATUS = Layout(
    "status",
    64,
    (
        Field("code", 0, "u32"),  # see status_codes
        Field("job", 4, "u32"),  # index of the job
        Field("segment", 8, "u32"),  # index of the segment; job.segments stands for the new rows
        Field("page", 12, "u32"),  # page within the segment, 0 = the first that it touches
        Field("kind", 16, "u32"),  # see status_kinds
        Field("position", 20, "u32"),  # token position, row or query token, as status_codes say
        Field("detail", 24, "u32"),  # byte offset of the refused field, or index of the AXI master
        Field("flags", 28, "u32"),  # see status_flags
        Field("cycles", 32, "u64"),  # clock cycles of the job; 0 where there is no clock
        Field("beats", 40, "u64"),  # beats read on m_axi_kv; after an error, how far it got
        Field("address", 48, "u64"),  # address of a failed AXI transfer
    ),
)

# What an identify job writes: which kernel this is.
IDENTITY = Layout(
    "identity",
    64,
    (
        Field("magic", 0, "u32"),  # contract.identity_magic
        Field("version", 4, "u32"),  # contract.version
        Field("regmap_hash", 8, "u32"),  # first four bytes (big endian) of the SHA-256 of this contract
        Field("implementation", 12, "u32"),  # see implementations
        Field("lanes", 16, "u32"),  # parameters.lanes of the build
        Field("rows_max", 20, "u32"),  # parameters.rows_max of the build
        Field("head_sizes", 24, "u32"),  # bit i: the i-th of head_sizes is supported
        Field("element_formats", 28, "u32"),  # bit i: element format i is supported
        Field("opcodes", 32, "u32"),  # bit i: opcode i is supported
        Field("block_tokens", 36, "u32"),  # parameters.block_tokens of the build
        Field("tile_tokens", 40, "u32"),  # parameters.tile_tokens of the build
        Field("build", 44, "u32"),  # first eight hex digits of the source revision; 0 = not recorded
    ),
)
