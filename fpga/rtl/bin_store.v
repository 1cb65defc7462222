// SPDX-License-Identifier: Apache-2.0
// Bins of O (16 columns x 3 bins per word) and of L for the rows of two jobs. One read and one write of each per cycle;
// the array's update goes first, state_load and job_finish wait. Reads take one cycle.
`resetall
`timescale 1ns / 1ps
`default_nettype none

module bin_store (
    input wire clk,

    // bin_update
    input wire u_read,
    input wire [9:0] u_read_addr,
    input wire [6:0] u_read_row,
    input wire u_write,
    input wire [9:0] u_write_addr,
    input wire [2399:0] u_data,
    input wire u_l_write,
    input wire [6:0] u_l_row,
    input wire [149:0] u_l_data,

    // state_load: 8 columns of one bin; L of one row
    input wire s_valid,
    output wire s_ready,
    input wire [9:0] s_addr,
    input wire s_half,
    input wire [1:0] s_bin,
    input wire [399:0] s_data,
    input wire s_l_valid,
    output wire s_l_ready,
    input wire [6:0] s_l_row,
    input wire [149:0] s_l_data,

    // job_finish
    input wire f_valid,
    output wire f_ready,
    input wire [9:0] f_addr,
    input wire [6:0] f_row,

    // [3 bins][16 columns] of 50 bits
    output wire [2399:0] data,
    // [3 bins] of 50 bits
    output wire [149:0] l_data
);

    wire read = u_read || f_valid;
    wire [9:0] read_addr = u_read ? u_read_addr : f_addr;
    wire [6:0] read_row = u_read ? u_read_row : f_row;

    assign s_ready = !u_write;
    assign s_l_ready = !u_l_write;
    assign f_ready = !u_read;

    genvar p;
    generate
        for (p = 0; p < 6; p = p + 1) begin : part
            localparam [2:0] PLACE = p;
            reg [399:0] mem[0:1023];
            reg [399:0] data_reg;
            wire write = u_write || s_valid && {s_bin, s_half} == PLACE;

            assign data[p*400+:400] = data_reg;

            always @(posedge clk) begin
                if (write) mem[u_write?u_write_addr : s_addr] <= u_write ? u_data[p*400+:400] : s_data;
                if (read) data_reg <= mem[read_addr];
            end
        end
    endgenerate

    reg [149:0] l_mem[0:127];
    reg [149:0] l_data_reg;

    assign l_data = l_data_reg;

    always @(posedge clk) begin
        if (u_l_write || s_l_valid) l_mem[u_l_write?u_l_row : s_l_row] <= u_l_write ? u_l_data : s_l_data;
        if (read) l_data_reg <= l_mem[read_row];
    end

endmodule

`resetall
