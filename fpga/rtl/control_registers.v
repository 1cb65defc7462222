// SPDX-License-Identifier: Apache-2.0
// AXI4-Lite slave with the registers of an ap_ctrl_chain kernel (docs/register-map.md) and the interrupt.
// Does not know what a list is: `list_start` asks for one, `list_accepted` and `list_done` answer.
`resetall
`timescale 1ns / 1ps
`default_nettype none
`include "regmap.vh"

module control_registers (
    input wire clk,
    input wire rst,

    input wire [11:0] s_axil_awaddr,
    input wire s_axil_awvalid,
    output wire s_axil_awready,
    input wire [31:0] s_axil_wdata,
    input wire [3:0] s_axil_wstrb,
    input wire s_axil_wvalid,
    output wire s_axil_wready,
    output wire [1:0] s_axil_bresp,
    output wire s_axil_bvalid,
    input wire s_axil_bready,
    input wire [11:0] s_axil_araddr,
    input wire s_axil_arvalid,
    output wire s_axil_arready,
    output wire [31:0] s_axil_rdata,
    output wire [1:0] s_axil_rresp,
    output wire s_axil_rvalid,
    input wire s_axil_rready,
    output wire interrupt,

    // high for one cycle; the pointers stay as they are until the list is done
    output wire list_start,
    output wire [63:0] kv,
    output wire [63:0] ctl,
    output wire [63:0] out,
    input wire list_accepted,
    input wire list_done
);

    reg start_reg;
    reg busy_reg;
    reg done_reg;
    reg ready_reg;
    reg gier_reg;
    reg [1:0] ier_reg;
    reg [1:0] isr_reg;
    reg [63:0] kv_reg;
    reg [63:0] ctl_reg;
    reg [63:0] out_reg;
    reg bvalid_reg;
    reg rvalid_reg;
    reg [31:0] rdata_reg;
    reg interrupt_reg;

    wire write = !rst && s_axil_awvalid && s_axil_wvalid && (!bvalid_reg || s_axil_bready);
    wire read = !rst && s_axil_arvalid && (!rvalid_reg || s_axil_rready);
    wire [31:0] mask = {{8{s_axil_wstrb[3]}}, {8{s_axil_wstrb[2]}}, {8{s_axil_wstrb[1]}}, {8{s_axil_wstrb[0]}}};
    wire [31:0] data = s_axil_wdata & mask;
    // registers are words; strobes say which of their bytes
    wire [11:0] write_addr = {s_axil_awaddr[11:2], 2'b00};
    wire [11:0] read_addr = {s_axil_araddr[11:2], 2'b00};
    wire write_ctrl = write && write_addr == `NK_ADDR_CTRL;
    wire read_ctrl = read && read_addr == `NK_ADDR_CTRL;
    wire idle = !start_reg && !busy_reg;

    assign s_axil_awready = write;
    assign s_axil_wready = write;
    assign s_axil_bresp = 2'b00;
    // low from the first cycle of a reset on, however short the reset
    assign s_axil_bvalid = bvalid_reg && !rst;
    assign s_axil_arready = read;
    assign s_axil_rdata = rdata_reg;
    assign s_axil_rresp = 2'b00;
    assign s_axil_rvalid = rvalid_reg && !rst;
    assign interrupt = interrupt_reg;
    assign kv = kv_reg;
    assign ctl = ctl_reg;
    assign out = out_reg;
    // A list waits until the one before has been acknowledged, else its DONE could not be told apart.
    assign list_start = start_reg && !busy_reg && !done_reg;

    reg [31:0] rdata_next;

    always @* begin
        case (read_addr)
            `NK_ADDR_CTRL: rdata_next = {28'd0, ready_reg, idle, done_reg, start_reg};
            `NK_ADDR_GIER: rdata_next = {31'd0, gier_reg};
            `NK_ADDR_IP_IER: rdata_next = {30'd0, ier_reg};
            `NK_ADDR_IP_ISR: rdata_next = {30'd0, isr_reg};
            `NK_ADDR_KV: rdata_next = kv_reg[31:0];
            `NK_ADDR_KV + 12'd4: rdata_next = kv_reg[63:32];
            `NK_ADDR_CTL: rdata_next = ctl_reg[31:0];
            `NK_ADDR_CTL + 12'd4: rdata_next = ctl_reg[63:32];
            `NK_ADDR_OUT: rdata_next = out_reg[31:0];
            `NK_ADDR_OUT + 12'd4: rdata_next = out_reg[63:32];
            default: rdata_next = 32'd0;
        endcase
    end

    always @(posedge clk) begin
        if (s_axil_bready) bvalid_reg <= 1'b0;
        if (s_axil_rready) rvalid_reg <= 1'b0;
        if (write) begin
            bvalid_reg <= 1'b1;
            case (write_addr)
                `NK_ADDR_GIER: if (s_axil_wstrb[0]) gier_reg <= data[0];
                `NK_ADDR_IP_IER: if (s_axil_wstrb[0]) ier_reg <= data[1:0];
                `NK_ADDR_KV: kv_reg[31:0] <= kv_reg[31:0] & ~mask | data;
                `NK_ADDR_KV + 12'd4: kv_reg[63:32] <= kv_reg[63:32] & ~mask | data;
                `NK_ADDR_CTL: ctl_reg[31:0] <= ctl_reg[31:0] & ~mask | data;
                `NK_ADDR_CTL + 12'd4: ctl_reg[63:32] <= ctl_reg[63:32] & ~mask | data;
                `NK_ADDR_OUT: out_reg[31:0] <= out_reg[31:0] & ~mask | data;
                `NK_ADDR_OUT + 12'd4: out_reg[63:32] <= out_reg[63:32] & ~mask | data;
                default: ;
            endcase
        end
        if (read) begin
            rvalid_reg <= 1'b1;
            rdata_reg <= rdata_next;
        end

        if (list_start) busy_reg <= 1'b1;
        if (list_accepted) start_reg <= 1'b0;
        if (write_ctrl && data[0]) start_reg <= 1'b1;
        if (read_ctrl) ready_reg <= 1'b0;
        if (list_accepted) ready_reg <= 1'b1;
        if (write_ctrl && data[4]) done_reg <= 1'b0;
        if (list_done) begin
            done_reg <= 1'b1;
            busy_reg <= 1'b0;
        end

        if (write && write_addr == `NK_ADDR_IP_ISR) isr_reg <= isr_reg ^ data[1:0];
        if (list_done && ier_reg[0]) isr_reg[0] <= 1'b1;
        if (list_accepted && ier_reg[1]) isr_reg[1] <= 1'b1;
        interrupt_reg <= gier_reg && isr_reg != 2'd0;

        if (rst) begin
            start_reg <= 1'b0;
            busy_reg <= 1'b0;
            done_reg <= 1'b0;
            ready_reg <= 1'b0;
            gier_reg <= 1'b0;
            ier_reg <= 2'd0;
            isr_reg <= 2'd0;
            kv_reg <= 64'd0;
            ctl_reg <= 64'd0;
            out_reg <= 64'd0;
            bvalid_reg <= 1'b0;
            rvalid_reg <= 1'b0;
            interrupt_reg <= 1'b0;
        end
    end

endmodule

`resetall
