# SPDX-License-Identifier: Apache-2.0
# Vivado: packages the RTL as a Vitis kernel. Not run yet, see README.md.
#
#   vivado -mode batch -source package_kernel.tcl -tclargs nearkv_attend.xo [part]
#
# Ports and arguments come from kernel.xml, which is generated from fpga/regmap.toml: no offset stands here.

proc package_kernel {argv} {
    if {[llength $argv] < 1 || [llength $argv] > 2} {
        error "wanted: -tclargs OUTPUT.xo ?PART?, got: $argv"
    }
    set here [file dirname [file normalize [info script]]]
    set output [file normalize [lindex $argv 0]]
    set part [expr {[llength $argv] > 1 ? [lindex $argv 1] : "xcku15p-ffva1156-2-e"}]
    if {[file exists $output]} {
        error "$output exists; remove it or give another name"
    }
    set work [file join [file dirname $output] nearkv_attend_package]
    file mkdir [file dirname $output]

    create_project -force nearkv_attend [file join $work project] -part $part
    add_files -norecurse [lsort [glob [file join $here .. *.v]]]
    # Included by the modules, never compiled alone.
    add_files -norecurse [lsort [glob [file join $here .. *.vh]]]
    set_property top nearkv_attend [current_fileset]
    update_compile_order -fileset sources_1

    set ip [file join $work ip]
    ipx::package_project -root_dir $ip -vendor nearkv -library kernel -taxonomy /KernelIP -import_files -set_current false
    ipx::unload_core [file join $ip component.xml]
    ipx::edit_ip_in_project -upgrade true -name edit -directory $ip [file join $ip component.xml]
    set core [ipx::current_core]
    set_property core_revision 1 $core
    foreach parameter [ipx::get_user_parameters] {
        ipx::remove_user_parameter [get_property NAME $parameter] $core
    }
    foreach bus {s_axi_control m_axi_kv m_axi_ctl m_axi_out} {
        ipx::associate_bus_interfaces -busif $bus -clock ap_clk $core
    }
    set_property xpm_libraries {} $core
    set_property sdx_kernel true $core
    set_property sdx_kernel_type rtl $core
    set_property supported_families {} $core
    set_property auto_family_support_level level_2 $core
    ipx::create_xgui_files $core
    ipx::update_checksums $core
    ipx::check_integrity -kernel $core
    ipx::save_core $core
    close_project -delete

    package_xo -xo_path $output -kernel_name nearkv_attend -ip_directory $ip -kernel_xml [file join $here kernel.xml]
}

package_kernel $argv
