// SPDX-License-Identifier: Apache-2.0
// Replays a golden vector through XRT's native API: memory before a list in, memory after it out. Knows no emulation.
//
// replay XCLBIN BEFORE AFTER KV CTL OUT: the first buffer of the bank holds BEFORE; KV, CTL and OUT are offsets in it.
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>
#include <vector>

#include "xrt/xrt_bo.h"
#include "xrt/xrt_device.h"
#include "xrt/xrt_kernel.h"

namespace {

std::vector<char> contents(const char* path) {
    std::ifstream file(path, std::ios::binary);
    if (!file) throw std::runtime_error(std::string("cannot read ") + path);
    return {std::istreambuf_iterator<char>(file), {}};
}

void replay(char** arguments) {
    xrt::device device(0);
    const auto uuid = device.load_xclbin(arguments[1]);
    xrt::kernel kernel(device, uuid, "nearkv_attend");
    const std::vector<char> before = contents(arguments[2]);

    xrt::bo memory(device, before.size(), xrt::bo::flags::normal, kernel.group_id(0));
    std::cout << "memory at 0x" << std::hex << memory.address() << std::dec << std::endl;
    memory.write(before.data());
    memory.sync(XCL_BO_SYNC_BO_TO_DEVICE);

    std::vector<xrt::bo> pointers;
    for (int i = 0; i < 3; ++i) {
        const size_t offset = std::stoull(arguments[4 + i]);
        pointers.emplace_back(memory, before.size() - offset, offset);
    }
    xrt::run run = kernel(pointers[0], pointers[1], pointers[2]);
    while (run.wait(std::chrono::milliseconds(100)) == ERT_CMD_STATE_TIMEOUT) continue;
    if (run.state() != ERT_CMD_STATE_COMPLETED) throw std::runtime_error("the run has not completed");

    std::vector<char> after(before.size());
    memory.sync(XCL_BO_SYNC_BO_FROM_DEVICE);
    memory.read(after.data());
    std::ofstream(arguments[3], std::ios::binary).write(after.data(), after.size());
}

}  // namespace

int main(int count, char** arguments) try {
    if (count != 7) throw std::runtime_error("replay XCLBIN BEFORE AFTER KV CTL OUT");
    replay(arguments);
    std::cout << "finished" << std::endl;
    return 0;
} catch (const std::exception& error) {
    std::cerr << "replay: " << error.what() << std::endl;
    return 1;
}
