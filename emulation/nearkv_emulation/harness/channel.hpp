// SPDX-License-Identifier: Apache-2.0
// The memory channel that all masters share: decides when a word is served. Two kinds: an ideal one, which serves each
// port a word per cycle, and a DDR4 controller with its banks. Moves no data.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "fill.hpp"

namespace nearkv {

// All that has a place on the channel.
struct Ports {
    Reader& kv;
    Reader& ctl;
    Writer& out;
    Fill& fill;
};

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

class Channel {
  public:
    virtual ~Channel() = default;
    // Serves what can be served in cycle `now`.
    virtual void step(uint64_t now) = 0;
    // Cycles of a port's latency that pass before a request is seen here; the rest passes on the way back.
    virtual uint32_t request_cycles(uint32_t latency) const = 0;
};

class IdealChannel : public Channel {
  public:
    explicit IdealChannel(Ports ports) : ports_(ports) {}
    void step(uint64_t now) override {
        ports_.fill.step(now);
        for (Reader* reader : {&ports_.kv, &ports_.ctl})
            if (reader->head(now) != nullptr) reader->serve(now);
        while (!ports_.out.bursts.empty()) ports_.out.serve(ports_.out.bursts.front().arrives);
        while (!ports_.fill.bursts.empty()) ports_.fill.serve(now);
    }
    uint32_t request_cycles(uint32_t latency) const override { return latency; }

  private:
    Ports ports_;
};

// One controller, open rows, bursts of eight transfers (one word), refresh of all banks at once. Words of a port are
// served in order, reads of both ports by turns; writes wait until there are enough of them, none of them longer than
// WRITE_AGE_CYCLES while reads go on. Rows of waiting bursts are opened ahead. Not modelled: ECC, power states,
// limits of the command bus beyond one row command per cycle of the kernel, differences between ranks.
class Ddr4Channel : public Channel {
  public:
    static constexpr uint32_t BURST = 4;
    static constexpr size_t BURSTS_AHEAD = 4;
    static constexpr size_t WRITES_AHEAD = 16;
    static constexpr size_t WRITES_START = 16;
    static constexpr uint32_t WRITES_IN_A_ROW = 32;
    static constexpr uint64_t WRITE_AGE_CYCLES = 128;

    Ddr4Channel(Ports ports, const Ddr4& figures, uint32_t clock_khz)
        : ports_(ports), f_(figures), clock_khz_(clock_khz), refresh_at_(figures.refi) {
        group_bits_ = bits(f_.groups);
        column_bits_ = bits(f_.row_bytes / static_cast<uint32_t>(WORD_BYTES));
        bank_bits_ = bits(f_.banks);
        banks_.resize(static_cast<size_t>(f_.groups) * f_.banks);
        groups_.resize(f_.groups);
    }
    void step(uint64_t now) override {
        ports_.fill.step(now);
        const uint64_t from = clocks(now), until = clocks(now + 1);
        while (from >= refresh_at_) refresh(from);
        turn(now);
        prepare(now, from, until);
        while (bus_free_ < until && column(now, from, until)) continue;
    }
    uint32_t request_cycles(uint32_t latency) const override { return latency / 2; }
    uint64_t activates() const { return activates_; }

  private:
    struct Bank {
        int64_t row = -1;
        // earliest clock of the next command of each kind
        uint64_t activate = 0, column = 0, precharge = 0;
    };
    struct Group {
        uint64_t activate = 0, column = 0, read_after_write = 0;
    };
    struct Place {
        uint32_t group;
        uint32_t bank;
        int64_t row;
    };
    static uint32_t bits(uint32_t power) {
        uint32_t n = 0;
        while (1u << n < power) ++n;
        return n;
    }
    uint64_t clocks(uint64_t cycle) const { return cycle * f_.khz / clock_khz_; }
    // The first cycle that begins at or after a clock.
    uint64_t cycle(uint64_t clock) const { return (clock * clock_khz_ + f_.khz - 1) / f_.khz; }
    // Consecutive words lie in different groups, so that a stream need not wait for ccd_l.
    Place place(uint64_t address) const {
        const uint64_t word = address / WORD_BYTES;
        const uint64_t above = word >> (group_bits_ + column_bits_);
        return {static_cast<uint32_t>(word & (f_.groups - 1)), static_cast<uint32_t>(above & (f_.banks - 1)),
                static_cast<int64_t>(above >> bank_bits_)};
    }
    Bank& bank(const Place& p) { return banks_[(static_cast<size_t>(p.group) << bank_bits_) + p.bank]; }

    void refresh(uint64_t from) {
        uint64_t closed = from;
        for (const Bank& b : banks_)
            if (b.row >= 0) closed = std::max(closed, b.precharge);
        for (Bank& b : banks_) {
            b.row = -1;
            b.activate = std::max(b.activate, closed + f_.rp + f_.rfc);
        }
        refresh_at_ += f_.refi;
        ++epoch_;
    }

    // Whether the bus carries reads or writes.
    void turn(uint64_t now) {
        const bool reads = ports_.kv.head(now) != nullptr || ports_.ctl.head(now) != nullptr;
        const size_t writes = arrived(ports_.out.bursts, now) + ports_.fill.bursts.size();
        if (writing_) {
            if (writes == 0 || (reads && written_ >= WRITES_IN_A_ROW)) writing_ = false;
        } else if (writes != 0 && (!reads || writes >= WRITES_START || overdue(now))) {
            writing_ = true;
            written_ = 0;
        }
    }
    static size_t arrived(const std::deque<Burst>& queue, uint64_t now) {
        if (queue.empty() || queue.front().arrives > now) return 0;
        return queue.back().arrives <= now ? queue.size() : 1;
    }
    bool overdue(uint64_t now) const {
        for (const std::deque<Burst>* queue : {&ports_.out.bursts, &ports_.fill.bursts})
            if (!queue->empty() && queue->front().arrives + WRITE_AGE_CYCLES < now) return true;
        return false;
    }

    std::array<std::deque<Burst>*, 2> queues(bool writes) {
        if (writes) return {&ports_.out.bursts, &ports_.fill.bursts};
        return {&ports_.kv.bursts, &ports_.ctl.bursts};
    }
    static size_t ahead(bool writes, const std::deque<Burst>& queue) {
        return std::min(queue.size(), writes ? WRITES_AHEAD : BURSTS_AHEAD);
    }

    // At most one row command: for what the bus carries now, then for the other direction where that does no harm.
    void prepare(uint64_t now, uint64_t from, uint64_t until) {
        for (const bool writes : {writing_, !writing_})
            for (std::deque<Burst>* queue : queues(writes))
                for (size_t i = 0; i < ahead(writes, *queue) && (*queue)[i].arrives <= now; ++i)
                    if ((*queue)[i].prepared != epoch_ && open(writes, (*queue)[i], from, until)) return;
    }
    // Opens the next row that a burst lacks; true when a command was given.
    bool open(bool writes, Burst& burst, uint64_t from, uint64_t until) {
        bool all = true;
        for (uint32_t i = 0; i < std::min(burst.left, f_.groups); ++i) {
            const Place p = place(burst.address + i * WORD_BYTES);
            Bank& b = bank(p);
            if (b.row == p.row) continue;
            all = false;
            if (b.row < 0 ? activate(p, b, from, until) : close(writes, burst, p, b, from, until)) return true;
        }
        if (all) burst.prepared = epoch_;
        return false;
    }
    bool activate(const Place& p, Bank& b, uint64_t from, uint64_t until) {
        Group& g = groups_[p.group];
        const uint64_t fourth = activations_[activates_ % 4];
        const uint64_t at = std::max({from, b.activate, g.activate, any_activate_, fourth});
        if (at >= until) return false;
        b.row = p.row;
        b.column = at + f_.rcd;
        b.precharge = at + f_.ras;
        b.activate = at + f_.ras + f_.rp;
        g.activate = at + f_.rrd_l;
        any_activate_ = at + f_.rrd_s;
        activations_[activates_ % 4] = at + f_.faw;
        ++activates_;
        return true;
    }
    bool close(bool writes, const Burst& burst, const Place& p, Bank& b, uint64_t from, uint64_t until) {
        const uint64_t at = std::max(from, b.precharge);
        if (at >= until || needed(writes, burst, p, b.row)) return false;
        b.row = -1;
        b.activate = std::max(b.activate, at + f_.rp);
        ++epoch_;
        return true;
    }
    // Whether the open row of p's bank is needed before `burst`: by an older first burst of its own direction, or, for
    // the direction that waits, by anything that the other one has in view.
    bool needed(bool writes, const Burst& burst, const Place& p, int64_t row) {
        for (std::deque<Burst>* queue : queues(writing_)) {
            const size_t count = writes == writing_ ? std::min<size_t>(queue->size(), 1) : ahead(writing_, *queue);
            for (size_t i = 0; i < count; ++i) {
                const Burst& other = (*queue)[i];
                if (&other == &burst || (writes == writing_ && other.arrives > burst.arrives)) continue;
                if (touches(other, p, row)) return true;
            }
        }
        return false;
    }
    bool touches(const Burst& burst, const Place& p, int64_t row) const {
        for (uint32_t i = 0; i < std::min(burst.left, f_.groups); ++i) {
            const Place other = place(burst.address + i * WORD_BYTES);
            if (other.group == p.group && other.bank == p.bank && other.row == row) return true;
        }
        return false;
    }

    // One word on the bus; false when none is ready before `until`.
    bool column(uint64_t now, uint64_t from, uint64_t until) {
        if (writing_) return write(ports_.out, now, from, until) || write(ports_.fill, now, from, until);
        Reader* readers[2] = {&ports_.kv, &ports_.ctl};
        for (uint32_t i = 0; i < 2; ++i) {
            Reader& reader = *readers[(next_ + i) % 2];
            if (read(reader, now, from, until)) {
                next_ = (next_ + i + 1) % 2;
                return true;
            }
        }
        return false;
    }
    bool read(Reader& reader, uint64_t now, uint64_t from, uint64_t until) {
        const Burst* burst = reader.head(now);
        if (burst == nullptr) return false;
        const Place p = place(burst->address);
        Bank& b = bank(p);
        Group& g = groups_[p.group];
        const uint64_t at = std::max({from, bus_free_, b.column, g.column, g.read_after_write, read_after_write_});
        if (b.row != p.row || at >= until) return false;
        taken(g, at);
        b.precharge = std::max(b.precharge, at + f_.rtp);
        write_after_read_ = at + f_.cl + BURST + f_.turn - f_.cwl;
        reader.serve(cycle(at + f_.cl + BURST) + reader.latency() - request_cycles(reader.latency()));
        return true;
    }
    template <typename Source>
    bool write(Source& source, uint64_t now, uint64_t from, uint64_t until) {
        if (source.bursts.empty() || source.bursts.front().arrives > now) return false;
        const Place p = place(source.bursts.front().address);
        Bank& b = bank(p);
        Group& g = groups_[p.group];
        const uint64_t at = std::max({from, bus_free_, b.column, g.column, write_after_read_});
        if (b.row != p.row || at >= until) return false;
        taken(g, at);
        const uint64_t end = at + f_.cwl + BURST;
        b.precharge = std::max(b.precharge, end + f_.wr);
        g.read_after_write = end + f_.wtr_l;
        read_after_write_ = end + f_.wtr_s;
        ++written_;
        source.serve(cycle(at) + latency_back(source));
        return true;
    }
    uint32_t latency_back(const Writer& writer) const { return writer.latency() - request_cycles(writer.latency()); }
    uint32_t latency_back(const Fill&) const { return 0; }
    void taken(Group& g, uint64_t at) {
        bus_free_ = at + BURST;
        g.column = at + f_.ccd_l;
    }

    Ports ports_;
    const Ddr4 f_;
    const uint64_t clock_khz_;
    uint32_t group_bits_, column_bits_, bank_bits_;
    std::vector<Bank> banks_;
    std::vector<Group> groups_;
    uint64_t refresh_at_;
    uint64_t bus_free_ = 0;
    uint64_t any_activate_ = 0;
    uint64_t write_after_read_ = 0;
    uint64_t read_after_write_ = 0;
    std::array<uint64_t, 4> activations_{};
    uint64_t activates_ = 0;
    uint64_t epoch_ = 1;
    uint32_t next_ = 0;
    uint32_t written_ = 0;
    bool writing_ = false;
};

}  // namespace nearkv
