// SPDX-License-Identifier: Apache-2.0
// How the kernel reaches memory: a master's words by index from its base pointer. Addresses are checked elsewhere.
//
// On hardware a port is the raw pointer, whose loops become bursts; the AXI adapter of HLS reports no response errors,
// so nothing ever fails there. With NEARKV_PORT_MODEL a port is the emulator's model of a master: accesses outside its
// memory fail and are reported as AXI errors.
#pragma once

#include "types.hpp"

#ifdef NEARKV_PORT_MODEL
#include "csim_memory.h"
#endif

namespace nearkv {

#ifdef NEARKV_PORT_MODEL
using read_port = nearkv_csim::Port*;
using write_port = nearkv_csim::Port*;
#else
using read_port = const word_t*;
using write_port = word_t*;
#endif

inline read_port bind_read(const word_t* pointer, unsigned master) {
#pragma HLS INLINE
#ifdef NEARKV_PORT_MODEL
    (void)pointer;
    return nearkv_csim::current_masters().port[master];
#else
    (void)master;
    return pointer;
#endif
}

inline write_port bind_write(word_t* pointer, unsigned master) {
#pragma HLS INLINE
#ifdef NEARKV_PORT_MODEL
    (void)pointer;
    return nearkv_csim::current_masters().port[master];
#else
    (void)master;
    return pointer;
#endif
}

// Index of the word at `address`, for a master whose base pointer holds the address `base`.
inline int64_t word_index(uint64_t address, uint64_t base) {
#pragma HLS INLINE
    return int64_t(address - base) >> 6;
}

// The `count` words from `index` on, to be read once each, in order, in one pipelined loop.
inline const word_t* open_burst(read_port port, int64_t index, uint32_t count) {
#pragma HLS INLINE
#ifdef NEARKV_PORT_MODEL
    return port->read(index, count);
#else
    (void)count;
    return port + index;
#endif
}

inline void write_word(write_port port, int64_t index, const word_t& word) {
#pragma HLS INLINE
#ifdef NEARKV_PORT_MODEL
    port->write(index, word);
#else
    port[index] = word;
#endif
}

// Whether an access of the port has failed since `clear_failure`, and the address of the first word that did.
template <typename PORT>
inline bool port_failed(PORT port, uint64_t& address) {
#pragma HLS INLINE
#ifdef NEARKV_PORT_MODEL
    if (port->failed()) address = port->failed_address();
    return port->failed();
#else
    (void)port;
    (void)address;
    return false;
#endif
}

template <typename PORT>
inline void clear_failure(PORT port) {
#pragma HLS INLINE
#ifdef NEARKV_PORT_MODEL
    port->clear();
#else
    (void)port;
#endif
}

// Words of the last burst of `count` that were read.
inline uint32_t words_read(read_port port, uint32_t count) {
#pragma HLS INLINE
#ifdef NEARKV_PORT_MODEL
    (void)count;
    return uint32_t(port->words_before());
#else
    (void)port;
    return count;
#endif
}

// Whether the master's base pointer holds `base`. An HLS kernel cannot see the value of its pointer arguments and must
// believe the list header; the emulator and an RTL kernel can.
template <typename PORT>
inline bool base_register_is(PORT port, uint64_t base) {
#pragma HLS INLINE
#ifdef NEARKV_PORT_MODEL
    return port->base_register() == base;
#else
    (void)port;
    (void)base;
    return true;
#endif
}

}  // namespace nearkv
