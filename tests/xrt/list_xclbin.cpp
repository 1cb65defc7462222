// SPDX-License-Identifier: Apache-2.0
// Prints what XRT's own parser finds in an xclbin: kernels, compute units, arguments, memories. Opens no device.
#include <experimental/xrt_xclbin.h>
#include <cstdio>
#include <exception>
#include <string>

int main(int argc, char** argv) try {
    if (argc != 2) {
        std::fprintf(stderr, "usage: list_xclbin FILE\n");
        return 2;
    }
    const xrt::xclbin file{std::string(argv[1])};
    std::printf("platform %s\nuuid %s\n", file.get_xsa_name().c_str(), file.get_uuid().to_string().c_str());
    for (const auto& kernel : file.get_kernels()) {
        std::printf("kernel %s\n", kernel.get_name().c_str());
        for (const auto& argument : kernel.get_args()) {
            std::printf("argument %s %zu 0x%llx %s", argument.get_name().c_str(), argument.get_index(),
                        static_cast<unsigned long long>(argument.get_offset()), argument.get_port().c_str());
            for (const auto& memory : argument.get_mems()) std::printf(" %s", memory.get_tag().c_str());
            std::printf("\n");
        }
        for (const auto& unit : kernel.get_cus()) {
            std::printf("unit %s 0x%llx %d\n", unit.get_name().c_str(),
                        static_cast<unsigned long long>(unit.get_base_address()),
                        static_cast<int>(unit.get_control_type()));
        }
    }
    for (const auto& memory : file.get_mems()) {
        std::printf("memory %s 0x%llx %llu %s\n", memory.get_tag().c_str(),
                    static_cast<unsigned long long>(memory.get_base_address()),
                    static_cast<unsigned long long>(memory.get_size_kb()), memory.get_used() ? "used" : "unused");
    }
    std::printf("end\n");
    return 0;
} catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
}
