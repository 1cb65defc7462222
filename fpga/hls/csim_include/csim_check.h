// SPDX-License-Identifier: Apache-2.0
// Reports a broken assumption of the kernel in a g++ build with NEARKV_CHECKED; without it, checks cost nothing.
#pragma once

#ifdef NEARKV_CHECKED
#include <stdexcept>
#endif

namespace nearkv_csim {

inline void check(bool holds, const char* sentence) {
#ifdef NEARKV_CHECKED
    if (!holds) throw std::logic_error(sentence);
#else
    (void)holds;
    (void)sentence;
#endif
}

}  // namespace nearkv_csim
