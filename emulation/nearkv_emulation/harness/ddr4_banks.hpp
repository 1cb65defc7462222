// SPDX-License-Identifier: Apache-2.0
// The banks of a DDR4 channel of 64 bits and its bus: which rows are open, and when the next command of each kind may
// come. Times are DRAM clocks. Does not choose: see ddr4.hpp.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "memory.hpp"

namespace nearkv {

// Figures of a DDR4 channel of 64 bits, in DRAM clocks unless said otherwise. The layout is that of the ctypes
// structure in memory_model.py.
struct Ddr4 {
    // DRAM clock; two transfers of 8 bytes per clock
    uint32_t khz;
    // bank groups, banks of a group, bytes of an open row over the whole channel: powers of two
    uint32_t groups;
    uint32_t banks;
    uint32_t row_bytes;
    uint32_t cl;
    uint32_t cwl;
    uint32_t rcd;
    uint32_t rp;
    uint32_t ras;
    uint32_t rrd_s;
    uint32_t rrd_l;
    uint32_t faw;
    uint32_t ccd_l;
    uint32_t rtp;
    uint32_t wr;
    uint32_t wtr_s;
    uint32_t wtr_l;
    // clocks that the data bus rests when a write follows a read
    uint32_t turn;
    uint32_t rfc;
    uint32_t refi;
};

class Ddr4Banks {
  public:
    // A word takes eight transfers.
    static constexpr uint32_t BURST = 4;

    explicit Ddr4Banks(const Ddr4& figures)
        : f_(figures),
          group_bits_(bits(figures.groups)),
          column_bits_(bits(figures.row_bytes / static_cast<uint32_t>(WORD_BYTES))),
          bank_bits_(bits(figures.banks)),
          banks_(static_cast<size_t>(figures.groups) * figures.banks),
          groups_(figures.groups) {}

    struct Place {
        uint32_t group;
        uint32_t bank;
        int64_t row;
        bool operator==(const Place& other) const {
            return group == other.group && bank == other.bank && row == other.row;
        }
    };
    // Consecutive words lie in different groups, so that a stream need not wait for ccd_l.
    Place place(uint64_t address) const {
        const uint64_t word = address / WORD_BYTES;
        const uint64_t above = word >> (group_bits_ + column_bits_);
        return {static_cast<uint32_t>(word & (f_.groups - 1)), static_cast<uint32_t>(above & (f_.banks - 1)),
                static_cast<int64_t>(above >> bank_bits_)};
    }
    uint32_t groups() const { return f_.groups; }
    // Changes whenever a row was closed.
    uint64_t epoch() const { return epoch_; }
    uint64_t activates() const { return activates_; }
    uint64_t bus_free() const { return bus_free_; }

    bool open(const Place& p) const { return bank(p).row == p.row; }
    // Whether p's row is open and, apart from the bus and its group, a word of it may begin before `until`.
    bool column_ready(const Place& p, uint64_t until) const { return open(p) && bank(p).column < until; }
    // Whether p's bank has an open row.
    bool occupied(const Place& p) const { return bank(p).row >= 0; }
    // The place, of p's bank, that is open or that the bank was closed for; row -1: neither.
    Place holder(const Place& p) const {
        const Bank& b = bank(p);
        return {p.group, p.bank, b.row >= 0 ? b.row : b.next_row};
    }

    // Each gives its command, unless the earliest time for it, from `from` on, is not before `until`.
    bool activate(const Place& p, uint64_t from, uint64_t until) {
        Bank& b = bank(p);
        Group& g = groups_[p.group];
        uint64_t& fourth = activations_[activates_ % activations_.size()];
        const uint64_t at = std::max({from, b.activate, g.activate, any_activate_, fourth});
        if (at >= until) return false;
        b.row = p.row;
        b.column = at + f_.rcd;
        b.precharge = at + f_.ras;
        b.activate = at + f_.ras + f_.rp;
        g.activate = at + f_.rrd_l;
        any_activate_ = at + f_.rrd_s;
        fourth = at + f_.faw;
        ++activates_;
        return true;
    }
    // Closes the row of p's bank, so that p can be opened next.
    bool close(const Place& p, uint64_t from, uint64_t until) {
        Bank& b = bank(p);
        const uint64_t at = std::max(from, b.precharge);
        if (at >= until) return false;
        b.row = -1;
        b.next_row = p.row;
        b.activate = std::max(b.activate, at + f_.rp);
        ++epoch_;
        return true;
    }
    // Closes all rows and refreshes; returns the clock from which on rows can be opened again.
    uint64_t refresh(uint64_t from) {
        uint64_t closed = from;
        for (const Bank& b : banks_)
            if (b.row >= 0) closed = std::max(closed, b.precharge);
        for (Bank& b : banks_) {
            b.row = b.next_row = -1;
            b.activate = std::max(b.activate, closed + f_.rp + f_.rfc);
        }
        ++epoch_;
        return closed + f_.rp + f_.rfc;
    }
    // Moves the word at p; `done`: when the bus has carried it, or a write has been taken.
    bool read(const Place& p, uint64_t from, uint64_t until, uint64_t* done) {
        Bank& b = bank(p);
        Group& g = groups_[p.group];
        const uint64_t at = std::max({from, bus_free_, b.column, g.column, g.read_after_write, read_after_write_});
        if (!open(p) || at >= until) return false;
        take_bus(g, at);
        b.precharge = std::max(b.precharge, at + f_.rtp);
        write_after_read_ = at + f_.cl + BURST + f_.turn - f_.cwl;
        *done = at + f_.cl + BURST;
        return true;
    }
    bool write(const Place& p, uint64_t from, uint64_t until, uint64_t* done) {
        Bank& b = bank(p);
        Group& g = groups_[p.group];
        const uint64_t at = std::max({from, bus_free_, b.column, g.column, write_after_read_});
        if (!open(p) || at >= until) return false;
        take_bus(g, at);
        const uint64_t end = at + f_.cwl + BURST;
        b.precharge = std::max(b.precharge, end + f_.wr);
        g.read_after_write = end + f_.wtr_l;
        read_after_write_ = end + f_.wtr_s;
        *done = at;
        return true;
    }

  private:
    struct Bank {
        int64_t row = -1;
        // the row that a closed bank was closed for
        int64_t next_row = -1;
        // earliest clock of the next command of each kind
        uint64_t activate = 0, column = 0, precharge = 0;
    };
    struct Group {
        uint64_t activate = 0, column = 0, read_after_write = 0;
    };
    static uint32_t bits(uint32_t power) {
        uint32_t n = 0;
        while (1u << n < power) ++n;
        return n;
    }
    size_t index(const Place& p) const { return (static_cast<size_t>(p.group) << bank_bits_) + p.bank; }
    Bank& bank(const Place& p) { return banks_[index(p)]; }
    const Bank& bank(const Place& p) const { return banks_[index(p)]; }
    void take_bus(Group& g, uint64_t at) {
        bus_free_ = at + BURST;
        g.column = at + f_.ccd_l;
    }

    const Ddr4 f_;
    const uint32_t group_bits_, column_bits_, bank_bits_;
    std::vector<Bank> banks_;
    std::vector<Group> groups_;
    uint64_t bus_free_ = 0;
    uint64_t any_activate_ = 0;
    uint64_t write_after_read_ = 0;
    uint64_t read_after_write_ = 0;
    std::array<uint64_t, 4> activations_{};
    uint64_t activates_ = 0;
    uint64_t epoch_ = 1;
};

}  // namespace nearkv
