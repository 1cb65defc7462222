// clang-format off
// SPDX-License-Identifier: Apache-2.0
// The kernel contract. Generated from fpga/regmap.toml by nearkv_driver.regmap_gen: edit that file.
#pragma once

#include <cstdint>

namespace nearkv {
namespace regmap {

// Where a field lies: its structure's 512-bit word, the lowest bit in that word, its width in bits.
struct Field {
    unsigned word;
    unsigned lsb;
    unsigned width;
};

constexpr uint32_t CONTRACT_VERSION = 1u;  // contract.version
constexpr uint32_t LIST_MAGIC = 0x4C564B4Eu;  // first word of a list
constexpr uint32_t IDENTITY_MAGIC = 0x49564B4Eu;  // first word of an identity block
constexpr uint32_t REGMAP_HASH = 0x8FB079F3u;  // identity.regmap_hash of this contract
constexpr uint32_t WORD_BYTES = 64u;  // bytes in one AXI beat (512 bits)
constexpr uint32_t PAGE_BYTES = 4096u;  // unit of flash writes and of checksums
constexpr uint32_t LANES = 32u;  // elements processed per beat
constexpr uint32_t LANE_PAD = 32u;  // rows are padded in storage to a multiple of this many elements
constexpr uint32_t TILE_TOKENS = 16u;  // tokens summed exactly before they enter the bins; at absolute multiples
constexpr uint32_t BLOCK_TOKENS = 128u;  // tokens buffered on chip at a time; at absolute multiples
constexpr uint32_t ROWS_MAX = 64u;  // query rows of one job
constexpr uint32_t QUERY_TOKENS_MAX = 64u;  // query tokens of one job
constexpr uint32_t NEW_TOKENS_MAX = 64u;  // new K and V rows that one job may carry
constexpr uint32_t POSITIONS_MAX = 2097152u;  // positions are below this: 2**17 tiles, so that a bin cannot overflow
constexpr uint32_t JOBS_MAX = 4096u;  // jobs of one list
constexpr uint32_t SEGMENTS_MAX = 131072u;  // segments of one job
constexpr uint32_t CRC_POLY = 0x82F63B78u;  // CRC-32C (Castagnoli), reflected
constexpr uint32_t SIGNIFICAND_BITS = 24u;  // block integers of q, K and V, with sign
constexpr uint32_t SCORE_FRACTION_BITS = 24u;  // fraction bits of a score, in log2 units
constexpr uint32_t SCORE_BITS = 48u;  // a score with sign; saturates
constexpr uint32_t WEIGHT_FRACTION_BITS = 24u;  // fraction bits of a weight's mantissa in [1, 2)
constexpr uint32_t WEIGHT_TABLE_BITS = 10u;  // log2 of the number of entries in the exp2 table
constexpr uint32_t ALIGNED_BITS = 26u;  // bits of a weight aligned inside its tile
constexpr uint32_t TILE_BITS = 54u;  // a tile's sum of products, with sign
constexpr uint32_t BIN_BITS = 32u;  // width of a bin
constexpr uint32_t BINS = 3u;  // bins kept per accumulator
constexpr uint32_t BIN_REGISTER_BITS = 50u;  // register of one bin, with sign; never carries
constexpr int32_t K_EXPONENT_MIN = -13;  // least block exponent of an FP16 row
constexpr int32_t Q_EXPONENT_MIN = -125;  // least block exponent of an FP32 row
constexpr int32_t EMPTY_T = -2147483647 - 1;  // T of a row that has seen no visible token
constexpr uint32_t STATE_T_LIMIT = 524288u;  // a state_in with |T| of at least this is refused
constexpr uint32_t NOT_APPLICABLE = 0xFFFFFFFFu;  // a status field that the code does not speak of
constexpr uint32_t REGISTER_GONE = 0xFFFFFFFFu;  // what CTRL reads when the card has left the bus
constexpr uint32_t ADDR_CTRL = 0x0u;  // control and state of the kernel; 0xFFFFFFFF means that the card is gone
constexpr uint32_t CTRL_START = 0x1u;  // write 1 to start; reads 1 until the list is accepted. A start while busy is held once
constexpr uint32_t CTRL_DONE = 0x2u;  // the list has ended; stays until CONTINUE
constexpr uint32_t CTRL_IDLE = 0x4u;  // drops in the cycle of START
constexpr uint32_t CTRL_READY = 0x8u;  // the list has been accepted; clears on read
constexpr uint32_t CTRL_CONTINUE = 0x10u;  // write 1 to clear DONE
constexpr uint32_t CTRL_AUTO_RESTART = 0x80u;  // not used; writes are ignored
constexpr uint32_t ADDR_GIER = 0x4u;  // global interrupt enable
constexpr uint32_t GIER_ENABLE = 0x1u;  // 1 lets the interrupt line rise
constexpr uint32_t ADDR_IP_IER = 0x8u;  // interrupt enable by cause
constexpr uint32_t IP_IER_DONE = 0x1u;  // interrupt when a list has ended
constexpr uint32_t IP_IER_READY = 0x2u;  // interrupt when a list has been accepted
constexpr uint32_t ADDR_IP_ISR = 0xCu;  // interrupt status; write 1 to toggle
constexpr uint32_t IP_ISR_DONE = 0x1u;  // a list has ended
constexpr uint32_t IP_ISR_READY = 0x2u;  // a list has been accepted
constexpr uint32_t ADDR_KV = 0x10u;  // base pointer of m_axi_kv: any address in its bank
constexpr uint32_t ADDR_CTL = 0x1Cu;  // base pointer of m_axi_ctl: the address of the list header
constexpr uint32_t ADDR_OUT = 0x28u;  // base pointer of m_axi_out: the address of the status blocks, one per job
constexpr uint32_t MASTER_KV = 0u;  // m_axi_kv: reads K and V
constexpr uint32_t MASTER_CTL = 1u;  // m_axi_ctl: reads the list, q, new rows, limits, checksums, state_in
constexpr uint32_t MASTER_OUT = 2u;  // m_axi_out: writes outputs, status, state_out, tail
constexpr uint32_t OPCODE_IDENTIFY = 1u;  // write the identity block
constexpr uint32_t OPCODE_ATTEND = 2u;  // exact attention of the rows over segments and new rows
constexpr uint32_t JOB_FLAG_RAW = 1u;  // write the output as a state (integers) instead of FP32
constexpr uint32_t ELEMENT_FORMAT_FP16 = 0u;  // IEEE 754 binary16
constexpr uint32_t KIND_K = 0u;
constexpr uint32_t KIND_V = 1u;
constexpr uint32_t KIND_Q = 2u;
constexpr uint32_t KIND_STATE = 3u;
constexpr uint32_t STATUS_FLAG_SATURATED = 1u;  // a score left 48 bits and was clamped
constexpr uint32_t IMPLEMENTATION_HLS = 1u;  // fpga/hls, compiled by g++ or synthesised
constexpr uint32_t IMPLEMENTATION_RTL = 2u;  // fpga/rtl
constexpr uint32_t IMPLEMENTATION_MODEL = 3u;  // the NumPy model
constexpr uint32_t STATUS_OK = 1u;  // outputs are valid
constexpr uint32_t STATUS_NOT_RUN = 2u;  // an earlier job of the list failed
constexpr uint32_t STATUS_BAD_LIST = 16u;  // the list header is refused; detail = offset of the field
constexpr uint32_t STATUS_BAD_JOB = 17u;  // the job is refused; detail = offset of the field
constexpr uint32_t STATUS_BAD_LIMIT = 18u;  // a limit structure is refused; position = query token, detail = offset of the field
constexpr uint32_t STATUS_BAD_SEGMENT = 19u;  // a segment is refused; segment, detail = offset of the field
constexpr uint32_t STATUS_CRC_MISMATCH = 32u;  // a page differs from its checksum; segment, page, kind
constexpr uint32_t STATUS_NONFINITE_KV = 33u;  // Inf or NaN in K or V; segment, kind, position
constexpr uint32_t STATUS_NONFINITE_Q = 34u;  // Inf or NaN in q; kind, position = row
constexpr uint32_t STATUS_BAD_STATE = 35u;  // state_in cannot be a state; kind, position = row
constexpr uint32_t STATUS_AXI_READ = 48u;  // a read was answered with SLVERR or DECERR; detail = master, address
constexpr uint32_t STATUS_AXI_WRITE = 49u;  // a write was answered with SLVERR or DECERR; detail = master, address

constexpr unsigned HEAD_SIZE_COUNT = 6;
constexpr uint32_t HEAD_SIZES[HEAD_SIZE_COUNT] = {64, 80, 96, 112, 128, 256};

// List header, at CTL. Its jobs follow it directly.
namespace list {
constexpr unsigned NBYTES = 128;
constexpr Field magic = {0, 0, 32};  // contract.list_magic
constexpr Field version = {0, 32, 32};  // contract.version
constexpr Field jobs = {0, 64, 32};  // 1 to jobs_max
constexpr Field kv_base = {0, 128, 64};  // value of the KV register
constexpr Field ctl_base = {0, 192, 64};  // value of the CTL register
constexpr Field out_base = {0, 256, 64};  // value of the OUT register
constexpr Field kv_window = {0, 320, 64};  // lowest address that m_axi_kv may touch; a multiple of 64
constexpr Field kv_window_nbytes = {0, 384, 64};  // size of that window; a multiple of 64
constexpr Field ctl_window = {0, 448, 64};  // the same for m_axi_ctl
constexpr Field ctl_window_nbytes = {1, 0, 64};
constexpr Field out_window = {1, 64, 64};  // the same for m_axi_out
constexpr Field out_window_nbytes = {1, 128, 64};
}  // namespace list

// One job: all rows that share one KV head of one sequence. An identify job has zero in every field but opcode and out_addr.
namespace job {
constexpr unsigned NBYTES = 256;
constexpr Field opcode = {0, 0, 32};  // see opcodes
constexpr Field flags = {0, 32, 32};  // see job_flags
constexpr Field head_size = {0, 64, 32};  // d, one of head_sizes; rows lie d_pad elements apart
constexpr Field element_format = {0, 96, 32};  // see element_formats
constexpr Field rows = {0, 128, 32};  // 1 to rows_max; row r belongs to query token r / (rows / query_tokens)
constexpr Field query_tokens = {0, 160, 32};  // 1 to query_tokens_max, divides rows
constexpr Field scale_mantissa = {0, 192, 32};  // scale * log2(e) = scale_mantissa * 2**(scale_exponent - 24), mantissa in [2**23, 2**24)
constexpr Field scale_exponent = {0, 224, 32};  // -126 to 127
constexpr Field window = {0, 256, 32};  // 0 = none; else only the last `window` positions before the causal limit are visible; below positions_max
constexpr Field segments = {0, 288, 32};  // 0 to segments_max
constexpr Field new_tokens = {0, 320, 32};  // 0 to new_tokens_max rows that travel with the list; they act as one more segment, after the others
constexpr Field new_first = {0, 352, 32};  // position of the first new row; same rule as segment.first_position; 0 without new rows
constexpr Field q_addr = {0, 384, 64};  // ctl: FP32 [rows, d_pad]
constexpr Field limits_addr = {0, 448, 64};  // ctl: one `limit` structure per query token
constexpr Field segments_addr = {1, 0, 64};  // ctl: `segment` structures; 0 without segments
constexpr Field new_k_addr = {1, 64, 64};  // ctl: FP16 [new_tokens, d_pad]; 0 without new rows
constexpr Field new_v_addr = {1, 128, 64};  // ctl: FP16 [new_tokens, d_pad]; 0 without new rows
constexpr Field tail_k_addr = {1, 192, 64};  // out: where the new K rows are copied; 0 = not
constexpr Field tail_v_addr = {1, 256, 64};  // out: where the new V rows are copied; zero exactly when tail_k_addr is
constexpr Field state_in = {1, 320, 64};  // ctl: state to start from; 0 = empty
constexpr Field state_out = {1, 384, 64};  // out: where the state is written; 0 = not
constexpr Field out_addr = {1, 448, 64};  // out: where the output is written; 0 = not
}  // namespace job

// What one query token sees: first <= position < limit, and with a window also position + window >= limit.
namespace limit {
constexpr unsigned NBYTES = 8;
constexpr Field first = {0, 0, 32};  // first visible position; at most positions_max
constexpr Field limit = {0, 32, 32};  // causal limit: one past the last visible position; at most positions_max
}  // namespace limit

// Consecutive tokens of one KV head whose K rows lie together in memory, and whose V rows do.
namespace segment {
constexpr unsigned NBYTES = 64;
constexpr Field tokens = {0, 0, 32};  // at least 1; first_position + tokens <= positions_max
constexpr Field first_position = {0, 32, 32};  // a multiple of 16, or exactly where the previous segment ended
constexpr Field k_addr = {0, 64, 64};  // kv: FP16 [tokens, d_pad], a multiple of 64
constexpr Field v_addr = {0, 128, 64};  // kv: FP16 [tokens, d_pad], a multiple of 64
constexpr Field crc_addr = {0, 192, 64};  // ctl: one `page_crc` per page that the segment touches, a multiple of 8; 0 = unchecked. Checked segments are read in whole pages, so k_addr and v_addr agree modulo page_bytes and the whole pages lie in the window
}  // namespace segment

// CRC-32C of the page of K and of the page of V that hold the same tokens.
namespace page_crc {
constexpr unsigned NBYTES = 8;
constexpr Field k = {0, 0, 32};  // CRC-32C of the 4096 bytes of the K page
constexpr Field v = {0, 32, 32};  // CRC-32C of the 4096 bytes of the V page
}  // namespace page_crc

// Written at OUT + 64 * job when that job ends. A list that is refused is reported in the first one with job = not_applicable.
namespace status {
constexpr unsigned NBYTES = 64;
constexpr Field code = {0, 0, 32};  // see status_codes
constexpr Field job = {0, 32, 32};  // index of the job
constexpr Field segment = {0, 64, 32};  // index of the segment; job.segments stands for the new rows
constexpr Field page = {0, 96, 32};  // page within the segment, 0 = the first that it touches
constexpr Field kind = {0, 128, 32};  // see status_kinds
constexpr Field position = {0, 160, 32};  // token position, row or query token, as status_codes say
constexpr Field detail = {0, 192, 32};  // byte offset of the refused field, or index of the AXI master
constexpr Field flags = {0, 224, 32};  // see status_flags
constexpr Field cycles = {0, 256, 64};  // clock cycles of the job; 0 where there is no clock
constexpr Field beats = {0, 320, 64};  // beats read on m_axi_kv; after an error, how far it got
constexpr Field address = {0, 384, 64};  // address of a failed AXI transfer
}  // namespace status

// What an identify job writes: which kernel this is.
namespace identity {
constexpr unsigned NBYTES = 64;
constexpr Field magic = {0, 0, 32};  // contract.identity_magic
constexpr Field version = {0, 32, 32};  // contract.version
constexpr Field regmap_hash = {0, 64, 32};  // first four bytes (big endian) of the SHA-256 of this contract
constexpr Field implementation = {0, 96, 32};  // see implementations
constexpr Field lanes = {0, 128, 32};  // parameters.lanes of the build
constexpr Field rows_max = {0, 160, 32};  // parameters.rows_max of the build
constexpr Field head_sizes = {0, 192, 32};  // bit i: the i-th of head_sizes is supported
constexpr Field element_formats = {0, 224, 32};  // bit i: element format i is supported
constexpr Field opcodes = {0, 256, 32};  // bit i: opcode i is supported
constexpr Field block_tokens = {0, 288, 32};  // parameters.block_tokens of the build
constexpr Field tile_tokens = {0, 320, 32};  // parameters.tile_tokens of the build
constexpr Field build = {0, 352, 32};  // first eight hex digits of the source revision; 0 = not recorded
}  // namespace identity

}  // namespace regmap
}  // namespace nearkv
