// SPDX-License-Identifier: Apache-2.0
// Replays golden vectors through XRT's native API, as a program for a card would. Knows no emulation.
//
// replay XCLBIN ADDRESS normal|p2p LIST: lines of LIST are `BEFORE AFTER KV CTL OUT`: a file with memory before a job
// list, the file to write with memory after it, and the registers as offsets in it. Memory must lie at ADDRESS.
// p2p: memory is a P2P buffer that is read from and written to the files with O_DIRECT, and synced never.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include "xrt/xrt_bo.h"
#include "xrt/xrt_device.h"
#include "xrt/xrt_kernel.h"

namespace {

constexpr size_t PAGE = 4096;
constexpr size_t BUFFER = 1 << 20;

struct Vector {
    std::string before, after;
    size_t nbytes, registers[3];
};

[[noreturn]] void fail(const std::string& what) {
    throw std::runtime_error(what + ": " + std::strerror(errno));
}

// A file opened for transfers between drive and card.
class Direct {
  public:
    Direct(const std::string& path, int flags) : path_(path), fd_(open(path.c_str(), flags | O_DIRECT, 0600)) {
        if (fd_ < 0) fail("open " + path);
    }
    ~Direct() { close(fd_); }
    void read(char* to, size_t nbytes) const { move("read", pread(fd_, to, nbytes, 0), nbytes); }
    void write(const char* from, size_t nbytes) const { move("write", pwrite(fd_, from, nbytes, 0), nbytes); }

  private:
    void move(const char* what, ssize_t done, size_t wanted) const {
        if (done != static_cast<ssize_t>(wanted)) fail(what + (" " + path_));
    }
    std::string path_;
    int fd_;
};

std::vector<Vector> vectors(const char* list) {
    std::ifstream lines(list);
    std::vector<Vector> found;
    for (std::string line; std::getline(lines, line);) {
        std::istringstream text(line);
        Vector vector;
        text >> vector.before >> vector.after;
        for (size_t& value : vector.registers) text >> value;
        struct stat status;
        if (!text || stat(vector.before.c_str(), &status) != 0) fail("line " + line);
        vector.nbytes = status.st_size;
        if (vector.nbytes > BUFFER || vector.nbytes % PAGE != 0) throw std::runtime_error("size of " + vector.before);
        found.push_back(vector);
    }
    return found;
}

void start_and_wait(xrt::kernel& kernel, const xrt::bo& memory, const Vector& vector) {
    std::vector<xrt::bo> pointers;
    for (const size_t offset : vector.registers) pointers.emplace_back(memory, BUFFER - offset, offset);
    xrt::run run = kernel(pointers[0], pointers[1], pointers[2]);
    while (run.wait(std::chrono::milliseconds(100)) == ERT_CMD_STATE_TIMEOUT) continue;
    if (run.state() != ERT_CMD_STATE_COMPLETED) throw std::runtime_error("not completed: " + vector.before);
}

void replay_synced(xrt::kernel& kernel, xrt::bo& memory, const Vector& vector) {
    std::vector<char> bytes(vector.nbytes);
    std::ifstream(vector.before, std::ios::binary).read(bytes.data(), bytes.size());
    memory.write(bytes.data(), bytes.size(), 0);
    // In two parts that are no packets of anybody: the device must take offsets as they are.
    const size_t part = vector.nbytes / PAGE / 2 * PAGE + 64;
    memory.sync(XCL_BO_SYNC_BO_TO_DEVICE, part, 0);
    memory.sync(XCL_BO_SYNC_BO_TO_DEVICE, vector.nbytes - part, part);
    start_and_wait(kernel, memory, vector);
    memory.sync(XCL_BO_SYNC_BO_FROM_DEVICE, part, 0);
    memory.sync(XCL_BO_SYNC_BO_FROM_DEVICE, vector.nbytes - part, part);
    memory.read(bytes.data(), bytes.size(), 0);
    std::ofstream(vector.after, std::ios::binary).write(bytes.data(), bytes.size());
}

void replay_p2p(xrt::kernel& kernel, xrt::bo& memory, const Vector& vector) {
    char* const map = memory.map<char*>();
    Direct(vector.before, O_RDONLY).read(map, vector.nbytes);
    start_and_wait(kernel, memory, vector);
    Direct(vector.after, O_WRONLY | O_CREAT | O_TRUNC).write(map, vector.nbytes);
}

void run(char** arguments) {
    xrt::device device(0);
    const auto uuid = device.load_xclbin(arguments[1]);
    xrt::kernel kernel(device, uuid, "nearkv_attend");
    const bool p2p = std::string(arguments[3]) == "p2p";
    xrt::bo memory(device, BUFFER, p2p ? xrt::bo::flags::p2p : xrt::bo::flags::normal, kernel.group_id(0));
    if (memory.address() != std::stoull(arguments[2], nullptr, 0))
        throw std::runtime_error("memory lies at " + std::to_string(memory.address()));
    for (const Vector& vector : vectors(arguments[4]))
        p2p ? replay_p2p(kernel, memory, vector) : replay_synced(kernel, memory, vector);
}

}  // namespace

int main(int count, char** arguments) try {
    if (count != 5) throw std::runtime_error("usage: replay XCLBIN ADDRESS normal|p2p LIST");
    run(arguments);
    std::cout << "finished" << std::endl;
    return 0;
} catch (const std::exception& error) {
    std::cerr << "replay: " << error.what() << std::endl;
    return 1;
}
