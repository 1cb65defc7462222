# SPDX-License-Identifier: Apache-2.0
# Vitis HLS: csim, csynth and export of nearkv_attend. Not run yet, see README.md. An argument replaces the part.

set here [file dirname [file normalize [info script]]]
set part xcku15p-ffva1156-2-e
# Vitis HLS leaves its own options (-f hls.tcl) in argv.
foreach word $argv {
    if {[string match xc*-* $word]} {
        set part $word
    }
}
set flags "-std=c++17 -I$here/../include"

open_project -reset nearkv_attend_hls
set_top nearkv_attend
add_files $here/../src/nearkv_attend.cpp -cflags $flags
add_files -tb $here/../tb/nearkv_attend_tb.cpp -cflags $flags
open_solution -reset -flow_target vitis solution
set_part $part
create_clock -period 300MHz
csim_design
csynth_design
export_design -format xo -output $here/nearkv_attend.xo
exit
