// SPDX-License-Identifier: Apache-2.0
// A C interface to the few classes of XRT's native C++ API that nearkv_driver.xrt needs. It adds nothing to them.
//
// Every function returns 0, or says in `failure` what XRT said. Objects are owned by who made them and end in `*_free`.
// Interface kept by nearkv_driver/xrt/native_api.py.

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <exception>
#include <new>
#include <string>
#include <system_error>

// Where it lies has changed between versions.
#if __has_include(<version.h>)
#include <version.h>
#else
#include <xrt/detail/version.h>
#endif

#include <xrt/xrt_bo.h>
#include <xrt/xrt_device.h>
#include <xrt/xrt_kernel.h>
// Where it lies has changed between versions.
#if __has_include(<experimental/xrt_ip.h>)
#include <experimental/xrt_ip.h>
#else
#include <xrt/experimental/xrt_ip.h>
#endif

namespace {

struct Failure {
    std::int32_t number;  // errno where XRT gave one
    std::int32_t memory;  // not 0: std::bad_alloc
    char text[1024];
};

struct Device {
    xrt::device device;
    xrt::uuid binary;
};

int failed(Failure* failure, const char* text, int number = 0, int memory = 0) {
    failure->number = number;
    failure->memory = memory;
    std::strncpy(failure->text, text, sizeof failure->text - 1);
    failure->text[sizeof failure->text - 1] = '\0';
    return 1;
}

template <typename Call>
int guarded(Failure* failure, Call call) {
    try {
        call();
        return 0;
    } catch (const std::bad_alloc& error) {
        return failed(failure, error.what(), 0, 1);
    } catch (const std::system_error& error) {
        return failed(failure, error.what(), std::abs(error.code().value()));
    } catch (const std::exception& error) {
        return failed(failure, error.what());
    } catch (...) {
        return failed(failure, "an exception of unknown kind");
    }
}

void copy(const std::string& text, char* out, std::uint64_t room) {
    const auto length = std::min<std::uint64_t>(text.size(), room - 1);
    std::memcpy(out, text.data(), length);
    out[length] = '\0';
}

}  // namespace

extern "C" {

const char* nearkv_xrt_version() {
    return xrt_build_version;
}

// `bdf` may be null: then `index` counts.
int nearkv_xrt_device_open(const char* bdf, std::uint32_t index, void** out, Failure* failure) {
    return guarded(failure, [&] { *out = new Device{bdf ? xrt::device(std::string(bdf)) : xrt::device(index), {}}; });
}

void nearkv_xrt_device_free(void* device) {
    delete static_cast<Device*>(device);
}

// 0: PCI address, 1: name, 2: UUID of the shell's interface.
int nearkv_xrt_device_query(void* device, int what, char* out, std::uint64_t room, Failure* failure) {
    return guarded(failure, [&] {
        auto& found = static_cast<Device*>(device)->device;
        if (what == 0)
            copy(found.get_info<xrt::info::device::bdf>(), out, room);
        else if (what == 1)
            copy(found.get_info<xrt::info::device::name>(), out, room);
        else
            copy(found.get_info<xrt::info::device::interface_uuid>().to_string(), out, room);
    });
}

int nearkv_xrt_device_loaded(void* device, char* out, std::uint64_t room, Failure* failure) {
    return guarded(failure,
                   [&] { copy(static_cast<Device*>(device)->device.get_xclbin_uuid().to_string(), out, room); });
}

int nearkv_xrt_device_load(void* device, const char* path, Failure* failure) {
    return guarded(failure, [&] {
        auto* on = static_cast<Device*>(device);
        on->binary = on->device.load_xclbin(std::string(path));
    });
}

int nearkv_xrt_bo_alloc(void* device, std::uint64_t nbytes, int p2p, std::uint32_t group, void** out,
                        Failure* failure) {
    return guarded(failure, [&] {
        const auto flags = p2p ? xrt::bo::flags::p2p : xrt::bo::flags::normal;
        *out = new xrt::bo(static_cast<Device*>(device)->device, nbytes, flags, group);
    });
}

void nearkv_xrt_bo_free(void* bo) {
    delete static_cast<xrt::bo*>(bo);
}

int nearkv_xrt_bo_address(void* bo, std::uint64_t* out, Failure* failure) {
    return guarded(failure, [&] { *out = static_cast<xrt::bo*>(bo)->address(); });
}

int nearkv_xrt_bo_map(void* bo, void** out, Failure* failure) {
    return guarded(failure, [&] { *out = static_cast<xrt::bo*>(bo)->map(); });
}

int nearkv_xrt_bo_sync(void* bo, int to_device, std::uint64_t nbytes, std::uint64_t offset, Failure* failure) {
    return guarded(failure, [&] {
        static_cast<xrt::bo*>(bo)->sync(to_device ? XCL_BO_SYNC_BO_TO_DEVICE : XCL_BO_SYNC_BO_FROM_DEVICE, nbytes,
                                        offset);
    });
}

int nearkv_xrt_kernel_open(void* device, const char* name, void** out, Failure* failure) {
    return guarded(failure, [&] {
        auto* on = static_cast<Device*>(device);
        *out = new xrt::kernel(on->device, on->binary, std::string(name));
    });
}

void nearkv_xrt_kernel_free(void* kernel) {
    delete static_cast<xrt::kernel*>(kernel);
}

int nearkv_xrt_kernel_group(void* kernel, int argument, std::uint32_t* out, Failure* failure) {
    return guarded(failure,
                   [&] { *out = static_cast<std::uint32_t>(static_cast<xrt::kernel*>(kernel)->group_id(argument)); });
}

int nearkv_xrt_run_open(void* kernel, void** out, Failure* failure) {
    return guarded(failure, [&] { *out = new xrt::run(*static_cast<xrt::kernel*>(kernel)); });
}

void nearkv_xrt_run_free(void* run) {
    delete static_cast<xrt::run*>(run);
}

int nearkv_xrt_run_set_buffer(void* run, int argument, void* bo, Failure* failure) {
    return guarded(failure, [&] { static_cast<xrt::run*>(run)->set_arg(argument, *static_cast<xrt::bo*>(bo)); });
}

int nearkv_xrt_run_start(void* run, Failure* failure) {
    return guarded(failure, [&] { static_cast<xrt::run*>(run)->start(); });
}

// 0 ms would wait for ever; the caller never asks for that.
int nearkv_xrt_run_wait(void* run, std::uint32_t milliseconds, Failure* failure) {
    return guarded(failure, [&] { static_cast<xrt::run*>(run)->wait(std::chrono::milliseconds(milliseconds)); });
}

int nearkv_xrt_run_state(void* run, std::int32_t* out, Failure* failure) {
    return guarded(failure, [&] { *out = static_cast<std::int32_t>(static_cast<xrt::run*>(run)->state()); });
}

int nearkv_xrt_ip_open(void* device, const char* name, void** out, Failure* failure) {
    return guarded(failure, [&] {
        auto* on = static_cast<Device*>(device);
        *out = new xrt::ip(on->device, on->binary, std::string(name));
    });
}

void nearkv_xrt_ip_free(void* ip) {
    delete static_cast<xrt::ip*>(ip);
}

int nearkv_xrt_ip_read(void* ip, std::uint32_t offset, std::uint32_t* out, Failure* failure) {
    return guarded(failure, [&] { *out = static_cast<xrt::ip*>(ip)->read_register(offset); });
}

int nearkv_xrt_ip_write(void* ip, std::uint32_t offset, std::uint32_t value, Failure* failure) {
    return guarded(failure, [&] { static_cast<xrt::ip*>(ip)->write_register(offset, value); });
}

}  // extern "C"
