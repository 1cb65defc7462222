# SPDX-License-Identifier: Apache-2.0
# Stands in for Vivado and Vitis HLS: every command that our scripts may use records itself, one call per line. A
# command that is not listed is an error, as a misspelt one is.
set log [open [lindex $argv 0] w]
set script [lindex $argv 1]
set argv [lrange $argv 2 end]
proc record {name arguments} {
    puts $::log [list $name {*}$arguments]
}
namespace eval ipx {}
foreach name {
    create_project add_files set_property update_compile_order close_project
    ipx::package_project ipx::unload_core ipx::edit_ip_in_project ipx::remove_user_parameter
    ipx::associate_bus_interfaces ipx::create_xgui_files ipx::update_checksums ipx::check_integrity ipx::save_core
    open_project set_top open_solution set_part create_clock csim_design csynth_design export_design
} {
    proc $name {args} "record $name \$args"
}
# Commands that make a part of another one give `parent/name` back.
foreach name {ipx::add_memory_map ipx::add_address_block ipx::add_register ipx::add_field ipx::add_register_parameter} {
    proc $name {args} {
        record [lindex [info level 0] 0] $args
        lassign $args quiet name parent
        if {$quiet ne "-quiet" || $parent eq ""} { error "[lindex [info level 0] 0]: wanted -quiet NAME PARENT, got $args" }
        return $parent/$name
    }
}
proc ipx::get_bus_interfaces {of core name} { return $core/$name }
proc current_fileset {} { return sources_1 }
proc ipx::current_core {} { return core }
proc ipx::get_user_parameters {} { return {LANES ROWS} }
proc get_property {property object} { return $object }
# Leaves a file, as the real one does.
proc package_xo {args} {
    record package_xo $args
    file copy [dict get $args -kernel_xml] [dict get $args -xo_path]
}
# A script that ends by itself: the log must be closed first.
rename exit end
proc exit {{code 0}} {
    puts $::log [list exit $code]
    close $::log
    end $code
}
set code [catch {source $script} message]
close $log
if {$code} {
    puts stderr $message
    end 1
}
