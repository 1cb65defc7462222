// SPDX-License-Identifier: Apache-2.0
// Preloaded into programs that run under XRT's emulation. Calls of `libxrt_hwemu` that sleep for seconds return after a
// millisecond, what it prints goes to stderr, so that stdout is the program's own, and its log goes into the run folder
// instead of beside the executable. Calls of anybody else pass.
#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <string>

namespace {

constexpr timespec SHORT = {0, 1000000};
constexpr const char* SHIM = "/libxrt_hwemu.so";
constexpr const char* LOG = "/emulation_debug.log";
constexpr const char* FOLDER = "SDACCEL_EM_RUN_DIR";

bool in_shim(void* address) {
    Dl_info info;
    return dladdr(address, &info) != 0 && info.dli_fname != nullptr && strstr(info.dli_fname, SHIM) != nullptr;
}

template <typename Function>
Function* next(const char* name) {
    return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

std::string redirected(const char* path) {
    const size_t length = strlen(path), tail = strlen(LOG);
    const char* folder = getenv(FOLDER);
    if (folder == nullptr || length < tail || strcmp(path + length - tail, LOG) != 0) return path;
    return std::string(folder) + LOG;
}

}  // namespace

extern "C" {

unsigned sleep(unsigned seconds) {
    static auto* const real = next<unsigned(unsigned)>("sleep");
    if (!in_shim(__builtin_return_address(0))) return real(seconds);
    nanosleep(&SHORT, nullptr);
    return 0;
}

int clock_nanosleep(clockid_t clock, int flags, const timespec* wanted, timespec* left) {
    static auto* const real = next<int(clockid_t, int, const timespec*, timespec*)>("clock_nanosleep");
    const bool shorten = flags == 0 && wanted != nullptr && wanted->tv_sec > 0 && in_shim(__builtin_return_address(0));
    return real(clock, flags, shorten ? &SHORT : wanted, left);
}

int nanosleep(const timespec* wanted, timespec* left) {
    static auto* const real = next<int(const timespec*, timespec*)>("nanosleep");
    const bool shorten = wanted != nullptr && wanted->tv_sec > 0 && in_shim(__builtin_return_address(0));
    return real(shorten ? &SHORT : wanted, left);
}

int puts(const char* text) {
    static auto* const real = next<int(const char*)>("puts");
    return in_shim(__builtin_return_address(0)) ? fprintf(stderr, "%s\n", text) : real(text);
}

// What a compiler makes of printf where it checks formats at run time.
int __printf_chk(int flag, const char* format, ...) {
    static auto* const real = next<int(FILE*, int, const char*, va_list)>("__vfprintf_chk");
    va_list arguments;
    va_start(arguments, format);
    const int done = real(in_shim(__builtin_return_address(0)) ? stderr : stdout, flag, format, arguments);
    va_end(arguments);
    return done;
}

FILE* fopen64(const char* path, const char* mode) {
    static auto* const real = next<FILE*(const char*, const char*)>("fopen64");
    return real(redirected(path).c_str(), mode);
}

FILE* fopen(const char* path, const char* mode) {
    static auto* const real = next<FILE*(const char*, const char*)>("fopen");
    return real(redirected(path).c_str(), mode);
}
}
