// SPDX-License-Identifier: Apache-2.0
// The kernel contract. Generated from fpga/regmap.toml by nearkv_driver.regmap_gen: edit that file.
// Offsets of fields are bits from the start of their structure.
`ifndef NEARKV_REGMAP_VH
`define NEARKV_REGMAP_VH

`define NK_CONTRACT_VERSION 32'd1 // contract.version
`define NK_LIST_MAGIC 32'h4C564B4E // first word of a list
`define NK_IDENTITY_MAGIC 32'h49564B4E // first word of an identity block
`define NK_REGMAP_HASH 32'h8FB079F3 // identity.regmap_hash of this contract
`define NK_WORD_BYTES 32'd64 // bytes in one AXI beat (512 bits)
`define NK_PAGE_BYTES 32'd4096 // unit of flash writes and of checksums
`define NK_LANES 32'd32 // elements processed per beat
`define NK_LANE_PAD 32'd32 // rows are padded in storage to a multiple of this many elements
`define NK_TILE_TOKENS 32'd16 // tokens summed exactly before they enter the bins; at absolute multiples
`define NK_BLOCK_TOKENS 32'd128 // tokens buffered on chip at a time; at absolute multiples
`define NK_ROWS_MAX 32'd64 // query rows of one job
`define NK_QUERY_TOKENS_MAX 32'd64 // query tokens of one job
`define NK_NEW_TOKENS_MAX 32'd64 // new K and V rows that one job may carry
`define NK_POSITIONS_MAX 32'd2097152 // positions are below this: 2**17 tiles, so that a bin cannot overflow
`define NK_JOBS_MAX 32'd4096 // jobs of one list
`define NK_SEGMENTS_MAX 32'd131072 // segments of one job
`define NK_CRC_POLY 32'h82F63B78 // CRC-32C (Castagnoli), reflected
`define NK_SIGNIFICAND_BITS 32'd24 // block integers of q, K and V, with sign
`define NK_SCORE_FRACTION_BITS 32'd24 // fraction bits of a score, in log2 units
`define NK_SCORE_BITS 32'd48 // a score with sign; saturates
`define NK_WEIGHT_FRACTION_BITS 32'd24 // fraction bits of a weight's mantissa in [1, 2)
`define NK_WEIGHT_TABLE_BITS 32'd10 // log2 of the number of entries in the exp2 table
`define NK_ALIGNED_BITS 32'd26 // bits of a weight aligned inside its tile
`define NK_TILE_BITS 32'd54 // a tile's sum of products, with sign
`define NK_BIN_BITS 32'd32 // width of a bin
`define NK_BINS 32'd3 // bins kept per accumulator
`define NK_BIN_REGISTER_BITS 32'd50 // register of one bin, with sign; never carries
`define NK_K_EXPONENT_MIN (-32'sd13) // least block exponent of an FP16 row
`define NK_Q_EXPONENT_MIN (-32'sd125) // least block exponent of an FP32 row
`define NK_EMPTY_T (-32'sd2147483648) // T of a row that has seen no visible token
`define NK_STATE_T_LIMIT 32'd524288 // a state_in with |T| of at least this is refused
`define NK_NOT_APPLICABLE 32'hFFFFFFFF // a status field that the code does not speak of
`define NK_REGISTER_GONE 32'hFFFFFFFF // what CTRL reads when the card has left the bus
`define NK_ADDR_CTRL 12'h000 // control and state of the kernel; 0xFFFFFFFF means that the card is gone
`define NK_CTRL_START 32'd1 // write 1 to start; reads 1 until the list is accepted. A start while busy is held once
`define NK_CTRL_DONE 32'd2 // the list has ended; stays until CONTINUE
`define NK_CTRL_IDLE 32'd4 // drops in the cycle of START
`define NK_CTRL_READY 32'd8 // the list has been accepted; clears on read
`define NK_CTRL_CONTINUE 32'd16 // write 1 to clear DONE
`define NK_CTRL_AUTO_RESTART 32'd128 // not used; writes are ignored
`define NK_ADDR_GIER 12'h004 // global interrupt enable
`define NK_GIER_ENABLE 32'd1 // 1 lets the interrupt line rise
`define NK_ADDR_IP_IER 12'h008 // interrupt enable by cause
`define NK_IP_IER_DONE 32'd1 // interrupt when a list has ended
`define NK_IP_IER_READY 32'd2 // interrupt when a list has been accepted
`define NK_ADDR_IP_ISR 12'h00C // interrupt status; write 1 to toggle
`define NK_IP_ISR_DONE 32'd1 // a list has ended
`define NK_IP_ISR_READY 32'd2 // a list has been accepted
`define NK_ADDR_KV 12'h010 // base pointer of m_axi_kv: any address in its bank
`define NK_ADDR_CTL 12'h01C // base pointer of m_axi_ctl: the address of the list header
`define NK_ADDR_OUT 12'h028 // base pointer of m_axi_out: the address of the status blocks, one per job
`define NK_MASTER_KV 32'd0 // m_axi_kv: reads K and V
`define NK_MASTER_CTL 32'd1 // m_axi_ctl: reads the list, q, new rows, limits, checksums, state_in
`define NK_MASTER_OUT 32'd2 // m_axi_out: writes outputs, status, state_out, tail
`define NK_OPCODE_IDENTIFY 32'd1 // write the identity block
`define NK_OPCODE_ATTEND 32'd2 // exact attention of the rows over segments and new rows
`define NK_JOB_FLAG_RAW 32'd1 // write the output as a state (integers) instead of FP32
`define NK_ELEMENT_FORMAT_FP16 32'd0 // IEEE 754 binary16
`define NK_KIND_K 32'd0
`define NK_KIND_V 32'd1
`define NK_KIND_Q 32'd2
`define NK_KIND_STATE 32'd3
`define NK_STATUS_FLAG_SATURATED 32'd1 // a score left 48 bits and was clamped
`define NK_IMPLEMENTATION_HLS 32'd1 // fpga/hls, compiled by g++ or synthesised
`define NK_IMPLEMENTATION_RTL 32'd2 // fpga/rtl
`define NK_IMPLEMENTATION_MODEL 32'd3 // the NumPy model
`define NK_STATUS_OK 32'd1 // outputs are valid
`define NK_STATUS_NOT_RUN 32'd2 // an earlier job of the list failed
`define NK_STATUS_BAD_LIST 32'd16 // the list header is refused; detail = offset of the field
`define NK_STATUS_BAD_JOB 32'd17 // the job is refused; detail = offset of the field
`define NK_STATUS_BAD_LIMIT 32'd18 // a limit structure is refused; position = query token, detail = offset of the field
`define NK_STATUS_BAD_SEGMENT 32'd19 // a segment is refused; segment, detail = offset of the field
`define NK_STATUS_CRC_MISMATCH 32'd32 // a page differs from its checksum; segment, page, kind
`define NK_STATUS_NONFINITE_KV 32'd33 // Inf or NaN in K or V; segment, kind, position
`define NK_STATUS_NONFINITE_Q 32'd34 // Inf or NaN in q; kind, position = row
`define NK_STATUS_BAD_STATE 32'd35 // state_in cannot be a state; kind, position = row
`define NK_STATUS_AXI_READ 32'd48 // a read was answered with SLVERR or DECERR; detail = master, address
`define NK_STATUS_AXI_WRITE 32'd49 // a write was answered with SLVERR or DECERR; detail = master, address

// List header, at CTL. Its jobs follow it directly.
`define NK_LIST_NBYTES 128
`define NK_LIST_MAGIC_LSB 0
`define NK_LIST_MAGIC_WIDTH 32
`define NK_LIST_VERSION_LSB 32
`define NK_LIST_VERSION_WIDTH 32
`define NK_LIST_JOBS_LSB 64
`define NK_LIST_JOBS_WIDTH 32
`define NK_LIST_KV_BASE_LSB 128
`define NK_LIST_KV_BASE_WIDTH 64
`define NK_LIST_CTL_BASE_LSB 192
`define NK_LIST_CTL_BASE_WIDTH 64
`define NK_LIST_OUT_BASE_LSB 256
`define NK_LIST_OUT_BASE_WIDTH 64
`define NK_LIST_KV_WINDOW_LSB 320
`define NK_LIST_KV_WINDOW_WIDTH 64
`define NK_LIST_KV_WINDOW_NBYTES_LSB 384
`define NK_LIST_KV_WINDOW_NBYTES_WIDTH 64
`define NK_LIST_CTL_WINDOW_LSB 448
`define NK_LIST_CTL_WINDOW_WIDTH 64
`define NK_LIST_CTL_WINDOW_NBYTES_LSB 512
`define NK_LIST_CTL_WINDOW_NBYTES_WIDTH 64
`define NK_LIST_OUT_WINDOW_LSB 576
`define NK_LIST_OUT_WINDOW_WIDTH 64
`define NK_LIST_OUT_WINDOW_NBYTES_LSB 640
`define NK_LIST_OUT_WINDOW_NBYTES_WIDTH 64

// One job: all rows that share one KV head of one sequence. An identify job has zero in every field but opcode and out_addr.
`define NK_JOB_NBYTES 256
`define NK_JOB_OPCODE_LSB 0
`define NK_JOB_OPCODE_WIDTH 32
`define NK_JOB_FLAGS_LSB 32
`define NK_JOB_FLAGS_WIDTH 32
`define NK_JOB_HEAD_SIZE_LSB 64
`define NK_JOB_HEAD_SIZE_WIDTH 32
`define NK_JOB_ELEMENT_FORMAT_LSB 96
`define NK_JOB_ELEMENT_FORMAT_WIDTH 32
`define NK_JOB_ROWS_LSB 128
`define NK_JOB_ROWS_WIDTH 32
`define NK_JOB_QUERY_TOKENS_LSB 160
`define NK_JOB_QUERY_TOKENS_WIDTH 32
`define NK_JOB_SCALE_MANTISSA_LSB 192
`define NK_JOB_SCALE_MANTISSA_WIDTH 32
`define NK_JOB_SCALE_EXPONENT_LSB 224
`define NK_JOB_SCALE_EXPONENT_WIDTH 32
`define NK_JOB_WINDOW_LSB 256
`define NK_JOB_WINDOW_WIDTH 32
`define NK_JOB_SEGMENTS_LSB 288
`define NK_JOB_SEGMENTS_WIDTH 32
`define NK_JOB_NEW_TOKENS_LSB 320
`define NK_JOB_NEW_TOKENS_WIDTH 32
`define NK_JOB_NEW_FIRST_LSB 352
`define NK_JOB_NEW_FIRST_WIDTH 32
`define NK_JOB_Q_ADDR_LSB 384
`define NK_JOB_Q_ADDR_WIDTH 64
`define NK_JOB_LIMITS_ADDR_LSB 448
`define NK_JOB_LIMITS_ADDR_WIDTH 64
`define NK_JOB_SEGMENTS_ADDR_LSB 512
`define NK_JOB_SEGMENTS_ADDR_WIDTH 64
`define NK_JOB_NEW_K_ADDR_LSB 576
`define NK_JOB_NEW_K_ADDR_WIDTH 64
`define NK_JOB_NEW_V_ADDR_LSB 640
`define NK_JOB_NEW_V_ADDR_WIDTH 64
`define NK_JOB_TAIL_K_ADDR_LSB 704
`define NK_JOB_TAIL_K_ADDR_WIDTH 64
`define NK_JOB_TAIL_V_ADDR_LSB 768
`define NK_JOB_TAIL_V_ADDR_WIDTH 64
`define NK_JOB_STATE_IN_LSB 832
`define NK_JOB_STATE_IN_WIDTH 64
`define NK_JOB_STATE_OUT_LSB 896
`define NK_JOB_STATE_OUT_WIDTH 64
`define NK_JOB_OUT_ADDR_LSB 960
`define NK_JOB_OUT_ADDR_WIDTH 64

// What one query token sees: first <= position < limit, and with a window also position + window >= limit.
`define NK_LIMIT_NBYTES 8
`define NK_LIMIT_FIRST_LSB 0
`define NK_LIMIT_FIRST_WIDTH 32
`define NK_LIMIT_LIMIT_LSB 32
`define NK_LIMIT_LIMIT_WIDTH 32

// Consecutive tokens of one KV head whose K rows lie together in memory, and whose V rows do.
`define NK_SEGMENT_NBYTES 64
`define NK_SEGMENT_TOKENS_LSB 0
`define NK_SEGMENT_TOKENS_WIDTH 32
`define NK_SEGMENT_FIRST_POSITION_LSB 32
`define NK_SEGMENT_FIRST_POSITION_WIDTH 32
`define NK_SEGMENT_K_ADDR_LSB 64
`define NK_SEGMENT_K_ADDR_WIDTH 64
`define NK_SEGMENT_V_ADDR_LSB 128
`define NK_SEGMENT_V_ADDR_WIDTH 64
`define NK_SEGMENT_CRC_ADDR_LSB 192
`define NK_SEGMENT_CRC_ADDR_WIDTH 64

// CRC-32C of the page of K and of the page of V that hold the same tokens.
`define NK_PAGE_CRC_NBYTES 8
`define NK_PAGE_CRC_K_LSB 0
`define NK_PAGE_CRC_K_WIDTH 32
`define NK_PAGE_CRC_V_LSB 32
`define NK_PAGE_CRC_V_WIDTH 32

// Written at OUT + 64 * job when that job ends. A list that is refused is reported in the first one with job = not_applicable.
`define NK_STATUS_NBYTES 64
`define NK_STATUS_CODE_LSB 0
`define NK_STATUS_CODE_WIDTH 32
`define NK_STATUS_JOB_LSB 32
`define NK_STATUS_JOB_WIDTH 32
`define NK_STATUS_SEGMENT_LSB 64
`define NK_STATUS_SEGMENT_WIDTH 32
`define NK_STATUS_PAGE_LSB 96
`define NK_STATUS_PAGE_WIDTH 32
`define NK_STATUS_KIND_LSB 128
`define NK_STATUS_KIND_WIDTH 32
`define NK_STATUS_POSITION_LSB 160
`define NK_STATUS_POSITION_WIDTH 32
`define NK_STATUS_DETAIL_LSB 192
`define NK_STATUS_DETAIL_WIDTH 32
`define NK_STATUS_FLAGS_LSB 224
`define NK_STATUS_FLAGS_WIDTH 32
`define NK_STATUS_CYCLES_LSB 256
`define NK_STATUS_CYCLES_WIDTH 64
`define NK_STATUS_BEATS_LSB 320
`define NK_STATUS_BEATS_WIDTH 64
`define NK_STATUS_ADDRESS_LSB 384
`define NK_STATUS_ADDRESS_WIDTH 64

// What an identify job writes: which kernel this is.
`define NK_IDENTITY_NBYTES 64
`define NK_IDENTITY_MAGIC_LSB 0
`define NK_IDENTITY_MAGIC_WIDTH 32
`define NK_IDENTITY_VERSION_LSB 32
`define NK_IDENTITY_VERSION_WIDTH 32
`define NK_IDENTITY_REGMAP_HASH_LSB 64
`define NK_IDENTITY_REGMAP_HASH_WIDTH 32
`define NK_IDENTITY_IMPLEMENTATION_LSB 96
`define NK_IDENTITY_IMPLEMENTATION_WIDTH 32
`define NK_IDENTITY_LANES_LSB 128
`define NK_IDENTITY_LANES_WIDTH 32
`define NK_IDENTITY_ROWS_MAX_LSB 160
`define NK_IDENTITY_ROWS_MAX_WIDTH 32
`define NK_IDENTITY_HEAD_SIZES_LSB 192
`define NK_IDENTITY_HEAD_SIZES_WIDTH 32
`define NK_IDENTITY_ELEMENT_FORMATS_LSB 224
`define NK_IDENTITY_ELEMENT_FORMATS_WIDTH 32
`define NK_IDENTITY_OPCODES_LSB 256
`define NK_IDENTITY_OPCODES_WIDTH 32
`define NK_IDENTITY_BLOCK_TOKENS_LSB 288
`define NK_IDENTITY_BLOCK_TOKENS_WIDTH 32
`define NK_IDENTITY_TILE_TOKENS_LSB 320
`define NK_IDENTITY_TILE_TOKENS_WIDTH 32
`define NK_IDENTITY_BUILD_LSB 352
`define NK_IDENTITY_BUILD_WIDTH 32
`define NK_HEAD_SIZE_0 32'd64
`define NK_HEAD_SIZE_1 32'd80
`define NK_HEAD_SIZE_2 32'd96
`define NK_HEAD_SIZE_3 32'd112
`define NK_HEAD_SIZE_4 32'd128
`define NK_HEAD_SIZE_5 32'd256
`define NK_HEAD_SIZE_COUNT 6

`endif
