// SPDX-License-Identifier: Apache-2.0
// What programs do with buffers, arguments and registers, on a kernel that adds a key to 8-byte words. Each check says
// what it found wrong. Knows no emulation.
//
// buffers XCLBIN FILE CHECK...: FILE lies on a drive and holds words; checks are the names in `main`.
#include <fcntl.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <fstream>
#include <iostream>
#include <map>
#include <string>
#include <vector>

#include "experimental/xrt_ip.h"
#include "xrt/xrt_bo.h"
#include "xrt/xrt_device.h"
#include "xrt/xrt_kernel.h"

namespace {

constexpr size_t WORDS = 20000;  // no multiple of a page or of a packet
constexpr size_t NBYTES = WORDS * 8;
constexpr uint64_t KEY = 0xFEDCBA9876543210;
using Words = std::vector<uint64_t>;

void require(bool ok, const std::string& what) {
    if (!ok) throw std::runtime_error(what);
}

Words numbers(uint64_t first) {
    Words words(WORDS);
    for (size_t i = 0; i < WORDS; ++i) words[i] = first + i * 0x9E3779B97F4A7C15;
    return words;
}

struct Card {
    explicit Card(const char* file, unsigned index = 0) : device(index), uuid(device.load_xclbin(file)) {}
    xrt::kernel kernel(const char* name) { return {device, uuid, name}; }
    xrt::bo bo(xrt::kernel& kernel, xrt::bo::flags flags = xrt::bo::flags::normal, size_t nbytes = NBYTES,
               int argument = 0) {
        return xrt::bo(device, nbytes, flags, kernel.group_id(argument));
    }
    xrt::device device;
    xrt::uuid uuid;
};

void add(xrt::kernel& kernel, const xrt::bo& from, const xrt::bo& to, uint64_t key, uint32_t words = WORDS) {
    xrt::run run = kernel(from, to, words, key);
    while (run.wait(std::chrono::milliseconds(100)) == ERT_CMD_STATE_TIMEOUT) continue;
    require(run.state() == ERT_CMD_STATE_COMPLETED, "the run has not completed");
}

void put(xrt::bo& bo, const Words& words) {
    bo.write(words.data());
    bo.sync(XCL_BO_SYNC_BO_TO_DEVICE);
}

Words get(xrt::bo& bo) {
    Words words(WORDS);
    bo.sync(XCL_BO_SYNC_BO_FROM_DEVICE);
    bo.read(words.data());
    return words;
}

void require_sum(const Words& got, const Words& from, uint64_t key) {
    for (size_t i = 0; i < WORDS; ++i)
        require(got[i] == from[i] + key, "word " + std::to_string(i) + " of " + std::to_string(WORDS) + " is wrong");
}

// Starts follow one another: DONE of the one before must be gone each time.
void starts(const char* file, const char*) {
    Card card(file);
    for (const char* name : {"add_hs", "add_chain"}) {
        xrt::kernel kernel = card.kernel(name);
        xrt::bo from = card.bo(kernel), to = card.bo(kernel);
        for (uint64_t round = 1; round <= 4; ++round) {
            put(from, numbers(round));
            add(kernel, from, to, KEY + round);
            require_sum(get(to), numbers(round), KEY + round);
        }
    }
}

// Bytes that were not synced are not seen on the other side, those that were are, at any offset.
void partial(const char* file, const char*) {
    Card card(file);
    xrt::kernel kernel = card.kernel("add_hs");
    xrt::bo from = card.bo(kernel), to = card.bo(kernel);
    const Words older = numbers(1), newer = numbers(2);
    put(from, older);
    from.write(newer.data());
    const size_t at = 12345 * 8, nbytes = 77 * 8;
    from.sync(XCL_BO_SYNC_BO_TO_DEVICE, nbytes, at);
    add(kernel, from, to, 0);
    const Words seen = get(to);
    for (size_t i = 0; i < WORDS; ++i) {
        const bool synced = i * 8 >= at && i * 8 < at + nbytes;
        require(seen[i] == (synced ? newer[i] : older[i]), "to the device: word " + std::to_string(i));
    }
    add(kernel, from, to, 1);
    to.sync(XCL_BO_SYNC_BO_FROM_DEVICE, nbytes, at);
    Words host(WORDS);
    to.read(host.data());
    for (size_t i = 0; i < WORDS; ++i) {
        const bool synced = i * 8 >= at && i * 8 < at + nbytes;
        require(host[i] == seen[i] + (synced ? 1 : 0), "from the device: word " + std::to_string(i));
    }
}

// A buffer that the host cannot see, and one through whose middle two sub-buffers reach.
void hidden(const char* file, const char*) {
    Card card(file);
    xrt::kernel kernel = card.kernel("add_chain");
    xrt::bo from = card.bo(kernel), to = card.bo(kernel);
    xrt::bo between = card.bo(kernel, xrt::bo::flags::device_only);
    put(from, numbers(3));
    add(kernel, from, between, KEY);
    add(kernel, between, to, KEY);
    require_sum(get(to), numbers(3), 2 * KEY);

    const size_t at = 4096 * 3, words = 500;
    add(kernel, xrt::bo(from, words * 8, at), xrt::bo(to, words * 8, at), 5, words);
    const Words got = get(to), had = numbers(3);
    for (size_t i = 0; i < WORDS; ++i) {
        const bool inside = i * 8 >= at && i * 8 < at + words * 8;
        require(got[i] == had[i] + (inside ? 5 : 2 * KEY), "sub-buffer: word " + std::to_string(i));
    }
}

// A drive fills a P2P buffer and takes another one; nothing is synced.
void drive(const char* file, const char* path) {
    Card card(file);
    xrt::kernel kernel = card.kernel("add_hs");
    const size_t nbytes = (NBYTES + 4095) / 4096 * 4096;
    xrt::bo from = card.bo(kernel, xrt::bo::flags::p2p, nbytes), to = card.bo(kernel, xrt::bo::flags::p2p, nbytes);
    const int fd = open(path, O_RDWR | O_DIRECT);
    require(fd >= 0, "open with O_DIRECT");
    require(pread(fd, from.map<char*>(), nbytes, 0) == static_cast<ssize_t>(nbytes), "pread");
    add(kernel, from, to, KEY);
    require(pwrite(fd, to.map<char*>(), nbytes, 0) == static_cast<ssize_t>(nbytes), "pwrite");
    close(fd);
}

// The kernel reads memory of the host through the device's second connection.
void host(const char* file, const char*) {
    Card card(file);
    xrt::kernel kernel = card.kernel("add_host");
    xrt::bo from = card.bo(kernel, xrt::bo::flags::host_only);
    xrt::bo to(card.device, NBYTES, xrt::bo::flags::normal, kernel.group_id(1));
    const Words words = numbers(7);
    from.write(words.data());
    add(kernel, from, to, KEY);
    require_sum(get(to), words, KEY);
}

// Registers one by one, as a driver without runs does it.
void registers(const char* file, const char*) {
    Card card(file);
    xrt::ip ip(card.device, card.uuid, "add_hs:{add_hs_1}");
    ip.write_register(0x10, 0x89ABCDEF);
    require(ip.read_register(0x10) == 0x89ABCDEF, "an argument's word reads back");
    require(ip.read_register(0x00) == 0x4, "an idle kernel shows IDLE only");
    require(ip.read_register(0xFFC) == 0, "a word that is no register reads 0");
}

// Copies that need no kernel: a normal buffer into another, and between P2P and normal ones.
void copies(const char* file, const char*) {
    Card card(file);
    xrt::kernel kernel = card.kernel("add_hs");
    xrt::bo a = card.bo(kernel), b = card.bo(kernel), p2p = card.bo(kernel, xrt::bo::flags::p2p);
    put(a, numbers(9));
    b.copy(a);
    require_sum(get(b), numbers(9), 0);
    p2p.copy(a);
    Words mapped(p2p.map<uint64_t*>(), p2p.map<uint64_t*>() + WORDS);
    require_sum(mapped, numbers(9), 0);
    put(b, numbers(10));
    b.copy(p2p);
    require_sum(get(b), numbers(9), 0);
}

// Two cards, each with memory of its own at the same addresses.
void two(const char* file, const char*) {
    Card first(file, 0), second(file, 1);
    xrt::kernel one = first.kernel("add_hs"), other = second.kernel("add_hs");
    xrt::bo from = first.bo(one), to = first.bo(one), far_from = second.bo(other), far_to = second.bo(other);
    require(from.address() == far_from.address(), "each card counts its memory from the same address");
    put(from, numbers(11));
    put(far_from, numbers(12));
    add(other, far_from, far_to, 1);
    add(one, from, to, KEY);
    require_sum(get(to), numbers(11), KEY);
    require_sum(get(far_to), numbers(12), 1);
}

// Works for ever once FILE, a named pipe, has been told who does.
void hold(const char* file, const char* path) {
    Card card(file);
    xrt::kernel kernel = card.kernel("add_hs");
    xrt::bo from = card.bo(kernel), to = card.bo(kernel, xrt::bo::flags::p2p);
    put(from, numbers(1));
    std::ofstream(path) << getpid() << std::endl;
    for (;;) add(kernel, from, to, KEY);
}

// Ends in good health without closing the device.
void leave(const char* file, const char*) {
    Card card(file);
    _exit(0);
}

// Crashes with the device open; XRT's emulation then signals the whole process group.
void crash(const char* file, const char*) {
    Card card(file);
    xrt::kernel kernel = card.kernel("add_hs");
    xrt::bo shared = card.bo(kernel, xrt::bo::flags::p2p);
    std::raise(SIGSEGV);
}

// Asks the kernel for what it cannot do.
void impossible(const char* file, const char*) {
    Card card(file);
    xrt::kernel kernel = card.kernel("add_hs");
    xrt::bo from = card.bo(kernel), to = card.bo(kernel);
    add(kernel, from, to, KEY, 0);
}

// Opens the device again and again.
void again(const char* file, const char*) {
    for (int i = 0; i < 2; ++i) {
        Card card(file);
        card.uuid = card.device.load_xclbin(file);
        xrt::kernel kernel = card.kernel("add_chain");
        xrt::bo from = card.bo(kernel), to = card.bo(kernel);
        put(from, numbers(i));
        add(kernel, from, to, KEY);
        require_sum(get(to), numbers(i), KEY);
    }
}

}  // namespace

int main(int count, char** arguments) try {
    const std::map<std::string, void (*)(const char*, const char*)> checks = {
        {"starts", starts},
        {"partial", partial},
        {"hidden", hidden},
        {"drive", drive},
        {"host", host},
        {"registers", registers},
        {"copies", copies},
        {"two", two},
        {"again", again},
        {"hold", hold},
        {"leave", leave},
        {"crash", crash},
        {"impossible", impossible},
    };
    if (count < 4) throw std::runtime_error("usage: buffers XCLBIN FILE CHECK...");
    for (int i = 3; i < count; ++i) {
        checks.at(arguments[i])(arguments[1], arguments[2]);
        std::cout << "passed " << arguments[i] << std::endl;
    }
    return 0;
} catch (const std::exception& error) {
    std::cerr << "buffers: " << error.what() << std::endl;
    return 1;
}
