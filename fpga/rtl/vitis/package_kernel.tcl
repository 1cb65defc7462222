# SPDX-License-Identifier: Apache-2.0
# Vivado: packages the RTL as a Vitis kernel. Not run yet, see README.md.
#
#   vivado -mode batch -source package_kernel.tcl -tclargs nearkv_attend.xo [part]
#
# Ports and arguments come from kernel.xml, which is generated from fpga/regmap.toml. The four control registers stand
# here, as they do for every Vitis kernel; the tests compare them with the register map.

# {name offset {field bit access ...}}
set control_registers {
    {CTRL 0x000 {AP_START 0 read-write AP_DONE 1 read-only AP_IDLE 2 read-only AP_READY 3 read-only
                 AP_CONTINUE 4 read-write AUTO_RESTART 7 read-write}}
    {GIER 0x004 {ENABLE 0 read-write}}
    {IP_IER 0x008 {DONE 0 read-write READY 1 read-write}}
    {IP_ISR 0x00C {DONE 0 read-write READY 1 read-write}}
}

# Every element of a kind in kernel.xml, as {attribute value ...}.
proc elements {file kind} {
    set handle [open $file]
    set text [read $handle]
    close $handle
    set found {}
    foreach element [regexp -all -inline "<$kind \[^>\]*>" $text] {
        set attributes {}
        foreach {whole name value} [regexp -all -inline {(\w+)="([^"]*)"} $element] {
            lappend attributes $name $value
        }
        lappend found $attributes
    }
    if {![llength $found]} {
        error "$file: no <$kind> in it"
    }
    return $found
}

# The register file behind s_axi_control: control registers, then one pointer per master.
proc describe_registers {core xml} {
    set map [ipx::add_memory_map -quiet s_axi_control $core]
    set block [ipx::add_address_block -quiet reg0 $map]
    foreach register $::control_registers {
        lassign $register name offset fields
        set handle [ipx::add_register -quiet $name $block]
        set_property address_offset $offset $handle
        set_property size 32 $handle
        foreach {field bit access} $fields {
            set part [ipx::add_field -quiet $field $handle]
            set_property access $access $part
            set_property bit_offset $bit $part
            set_property bit_width 1 $part
        }
    }
    foreach argument [elements $xml arg] {
        set handle [ipx::add_register -quiet [dict get $argument name] $block]
        set_property address_offset [dict get $argument offset] $handle
        set_property size [expr {8 * [dict get $argument size]}] $handle
        set bus [ipx::add_register_parameter -quiet ASSOCIATED_BUSIF $handle]
        set_property value [dict get $argument port] $bus
    }
    set_property slave_memory_map_ref s_axi_control [ipx::get_bus_interfaces -of $core s_axi_control]
}

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
    set xml [file join $here kernel.xml]
    foreach port [elements $xml port] {
        ipx::associate_bus_interfaces -busif [dict get $port name] -clock ap_clk $core
    }
    describe_registers $core $xml
    set_property xpm_libraries {} $core
    set_property sdx_kernel true $core
    set_property sdx_kernel_type rtl $core
    set_property vitis_drc {ctrl_protocol ap_ctrl_chain} $core
    # The platform gives the clock.
    set_property ipi_drc {ignore_freq_hz true} $core
    set_property supported_families {} $core
    set_property auto_family_support_level level_2 $core
    ipx::create_xgui_files $core
    ipx::update_checksums $core
    ipx::check_integrity -kernel $core
    ipx::save_core $core
    close_project -delete

    package_xo -xo_path $output -kernel_name nearkv_attend -ip_directory $ip -kernel_xml $xml
}

package_kernel $argv
