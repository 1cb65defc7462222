# SPDX-License-Identifier: Apache-2.0
# Stands in for Vivado: every command that the packaging script may use records itself, one call per line. A command
# that is not listed is an error, as a misspelt one is.
set log [open [lindex $argv 0] w]
set script [lindex $argv 1]
set argv [lrange $argv 2 end]
proc record {name arguments} {
    puts $::log [list $name {*}$arguments]
}
namespace eval ipx {}
foreach name {
    create_project add_files set_property update_compile_order close_project package_xo
    ipx::package_project ipx::unload_core ipx::edit_ip_in_project ipx::remove_user_parameter
    ipx::associate_bus_interfaces ipx::create_xgui_files ipx::update_checksums ipx::check_integrity ipx::save_core
} {
    proc $name {args} "record $name \$args"
}
proc current_fileset {} { return sources_1 }
proc ipx::current_core {} { return core }
proc ipx::get_user_parameters {} { return {LANES ROWS} }
proc get_property {property object} { return $object }
set code [catch {source $script} message]
close $log
if {$code} {
    puts stderr $message
    exit 1
}
