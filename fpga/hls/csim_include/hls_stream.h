// SPDX-License-Identifier: Apache-2.0
// hls::stream for g++: a bounded queue of fixed depth. Processes of a dataflow region run one after the other here, so
// a stream must hold all that its writer writes; the depth that is declared for hardware is chosen to be enough for
// that, and a NEARKV_CHECKED build reports a queue that overflows, is read empty, or ends with something left in it.
#pragma once

#ifdef NEARKV_CHECKED
#include <exception>
#endif

#include "csim_check.h"

namespace hls {

template <typename T, int DEPTH>
class stream {
    static_assert(DEPTH > 0, "a stream declares its depth");

  public:
    stream() = default;
    stream(const stream&) = delete;
    stream& operator=(const stream&) = delete;
#ifdef NEARKV_CHECKED
    ~stream() noexcept(false) {
        nearkv_csim::check(count_ == 0 || std::uncaught_exceptions() > 0, "a stream ends with elements in it");
    }
#endif
    bool empty() const { return count_ == 0; }
    bool full() const { return count_ == DEPTH; }
    void write(const T& element) {
        nearkv_csim::check(!full(), "a stream overflows its depth");
        ring_[tail_] = element;
        tail_ = tail_ + 1 == DEPTH ? 0 : tail_ + 1;
        ++count_;
    }
    T read() {
        nearkv_csim::check(!empty(), "a stream is read empty");
        const int at = head_;
        head_ = head_ + 1 == DEPTH ? 0 : head_ + 1;
        --count_;
        return ring_[at];
    }

  private:
    T ring_[DEPTH];
    int head_ = 0, tail_ = 0, count_ = 0;
};

}  // namespace hls
