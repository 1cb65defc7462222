// SPDX-License-Identifier: Apache-2.0
// A DDR4 controller as the channel of all masters: which row command and which word come next. The rules of the banks
// are in ddr4_banks.hpp. Not modelled: ECC, power states, limits of the command bus beyond one row command per cycle of
// the kernel, differences between ranks.
#pragma once

#include "channel.hpp"
#include "ddr4_banks.hpp"

namespace nearkv {

// Open rows, refresh of all banks at once. Words of a port are served in its order, reads of both ports by turns.
//
// Rows of waiting bursts are opened ahead. Where the first bursts of two ports need different rows of a bank, the one
// whose rows are all open goes first, else the older one (first-ready, first-come first-served: Rixner et al., ISCA
// 2000); one that has stood first for FIRST_AGE_CYCLES waits no longer. A row that was closed is opened for whom it
// was closed. Writes wait until there are WRITES_START of them or no reads, then go on until none is left (a write
// queue with a high and a low mark, as in Hansson et al., ISPASS 2014), but none waits longer than WRITE_AGE_CYCLES.
class Ddr4Channel : public Channel {
  public:
    static constexpr size_t BURSTS_AHEAD = 4;
    static constexpr uint64_t FIRST_AGE_CYCLES = 256;
    static constexpr size_t WRITES_AHEAD = 16;
    static constexpr size_t WRITES_START = Writer::WAITING_MAX / 2;
    static constexpr uint32_t WRITES_IN_A_ROW = Writer::WAITING_MAX;
    static constexpr uint64_t WRITE_AGE_CYCLES = 128;

    Ddr4Channel(Ports ports, const Ddr4& figures, uint32_t clock_khz)
        : ports_(ports),
          banks_(figures),
          khz_(figures.khz),
          refi_(figures.refi),
          clock_khz_(clock_khz),
          refresh_at_(figures.refi) {}
    void step(uint64_t now) override {
        now_ = now;
        from_ = clocks(now);
        until_ = clocks(now + 1);
        ports_.fill.step(now);
        for (; from_ >= refresh_at_; refresh_at_ += refi_) refreshed_at_ = banks_.refresh(from_);
        for (const bool writes : {false, true})
            for (const Queue& queue : queues(writes))
                if (queue.arrived(0, now) && queue.at(0).first_since == 0) queue.at(0).first_since = now;
        turn();
        prepare();
        begun_ = BusUses::NOTHING;
        while (banks_.bus_free() < until_ && column()) continue;
        ++uses_.cycles[use()];
    }
    uint32_t request_cycles(uint32_t latency) const override { return latency / 2; }
    const BusUses* uses() const override { return &uses_; }
    uint64_t activates() const { return banks_.activates(); }

  private:
    using Place = Ddr4Banks::Place;

    // Bursts of one port in the order in which they are served.
    struct Queue {
        std::deque<Burst>* bursts;
        Burst& at(size_t i) const { return (*bursts)[i]; }
        bool arrived(size_t i, uint64_t now) const { return i < bursts->size() && at(i).arrives <= now; }
    };
    std::array<Queue, 2> queues(bool writes) const {
        if (writes) return {{{&ports_.out.bursts}, {&ports_.fill.bursts}}};
        return {{{&ports_.kv.bursts}, {&ports_.ctl.bursts}}};
    }
    static size_t in_view(bool writes) { return writes ? WRITES_AHEAD : BURSTS_AHEAD; }

    uint64_t clocks(uint64_t cycle) const { return cycle * khz_ / clock_khz_; }
    // The first cycle that begins at or after a clock.
    uint64_t cycle(uint64_t clock) const { return (clock * clock_khz_ + khz_ - 1) / khz_; }

    // Whether the bus carries reads or writes.
    void turn() {
        const bool reads = ports_.kv.head(now_) != nullptr || ports_.ctl.head(now_) != nullptr;
        size_t writes = 0;
        bool overdue = false;
        for (const Queue& queue : queues(true)) {
            size_t i = 0;
            while (queue.arrived(i, now_)) ++i;
            writes += i;
            overdue = overdue || (i != 0 && queue.at(0).arrives + WRITE_AGE_CYCLES < now_);
        }
        const bool before = writing_;
        if (writing_) {
            if (writes == 0 || (reads && written_ >= WRITES_IN_A_ROW)) writing_ = false;
        } else if (writes != 0 && (!reads || writes >= WRITES_START || overdue)) {
            writing_ = true;
            written_ = 0;
        }
        if (writing_ != before) {
            turned_ = true;
            ++uses_.turns;
        }
    }

    // At most one row command: for what the bus carries now, then for the other direction where that does no harm.
    void prepare() {
        for (const bool writes : {writing_, !writing_})
            for (const Queue& queue : queues(writes))
                for (size_t i = 0; i < in_view(writes) && queue.arrived(i, now_); ++i)
                    if (queue.at(i).prepared != banks_.epoch() && open(writes, queue, i)) return;
    }
    // Opens the next row that the i-th burst lacks; true when a command was given.
    bool open(bool writes, const Queue& queue, size_t i) {
        Burst& burst = queue.at(i);
        bool all = true;
        for (uint32_t word = 0; word < words(burst); ++word) {
            const Place p = banks_.place(burst.address + word * WORD_BYTES);
            if (banks_.open(p)) continue;
            all = false;
            const Place holder = banks_.holder(p);
            if (!(holder == p) && holder.row >= 0 && needed(writes, queue, i, holder)) continue;
            if (banks_.occupied(p) ? banks_.close(p, from_, until_) : banks_.activate(p, from_, until_)) return true;
        }
        if (all) burst.prepared = banks_.epoch();
        return false;
    }
    // Words of a burst that lie in different banks; the others are in the rows of these.
    uint32_t words(const Burst& burst) const { return std::min(burst.left, banks_.groups()); }
    // Whether somebody else needs `holder`'s row before the i-th burst of `queue` may have its bank.
    bool needed(bool writes, const Queue& queue, size_t i, const Place& holder) const {
        const bool first = i == 0 && writes == writing_;
        for (const Queue& other : queues(writing_)) {
            const bool own = other.bursts == queue.bursts;
            if (first && !own && other.arrived(0, now_) && uses(other, holder) && !goes_first(queue.at(0), other.at(0)))
                return true;
            const size_t view = first ? 0 : own ? i : in_view(writing_);
            for (size_t k = 0; k < view && other.arrived(k, now_); ++k)
                if (touches(other.at(k), holder)) return true;
        }
        return false;
    }
    // Whether the first burst is in that row; when it is about to end, the next.
    bool uses(const Queue& queue, const Place& p) const {
        return touches(queue.at(0), p) ||
               (queue.at(0).left < banks_.groups() && queue.arrived(1, now_) && touches(queue.at(1), p));
    }
    // Of the first bursts of two ports. Exactly one of them goes first, so they cannot wait for each other.
    bool goes_first(const Burst& burst, const Burst& other) const {
        const bool late = burst.first_since + FIRST_AGE_CYCLES < now_;
        if (late != (other.first_since + FIRST_AGE_CYCLES < now_)) return late;
        const bool ready = has_rows(burst);
        if (!late && ready != has_rows(other)) return ready;
        // Equal addresses would be of one row.
        if (burst.first_since == other.first_since) return burst.address < other.address;
        return burst.first_since < other.first_since;
    }
    bool has_rows(const Burst& burst) const {
        for (uint32_t word = 0; word < words(burst); ++word)
            if (!banks_.open(banks_.place(burst.address + word * WORD_BYTES))) return false;
        return true;
    }
    bool touches(const Burst& burst, const Place& p) const {
        for (uint32_t word = 0; word < words(burst); ++word)
            if (banks_.place(burst.address + word * WORD_BYTES) == p) return true;
        return false;
    }

    // One word on the bus; false when none is ready in this cycle.
    bool column() {
        if (writing_) {
            if (write(ports_.out)) return began(BusUses::OUT);
            return write(ports_.fill) && began(BusUses::FILL);
        }
        Reader* readers[2] = {&ports_.kv, &ports_.ctl};
        for (uint32_t i = 0; i < 2; ++i) {
            const uint32_t port = (next_ + i) % 2;
            if (read(*readers[port])) {
                next_ = (port + 1) % 2;
                return began(port == 0 ? BusUses::KV : BusUses::CTL);
            }
        }
        return false;
    }
    // Notes whose word is carried; of several in one cycle the first counts. Always true.
    bool began(BusUses::Use port) {
        if (begun_ == BusUses::NOTHING) begun_ = port;
        carried_ = port;
        turned_ = false;
        return true;
    }
    // What the cycle at hand is counted as.
    BusUses::Use use() const {
        if (begun_ != BusUses::NOTHING) return begun_;
        if (banks_.bus_free() >= until_) return carried_;
        const Burst* waiting[] = {ports_.kv.head(now_), ports_.ctl.head(now_), first(ports_.out), first(ports_.fill)};
        bool any = false, rows = false;
        for (size_t port = 0; port < 4; ++port) {
            if (waiting[port] == nullptr) continue;
            any = true;
            const bool now = (port >= BusUses::OUT) == writing_;
            rows = rows || (now && banks_.column_ready(banks_.place(waiting[port]->address), until_));
        }
        if (!any) return BusUses::NOTHING;
        if (from_ < refreshed_at_) return BusUses::REFRESH;
        return turned_ && rows ? BusUses::TURN : BusUses::ROWS;
    }
    template <typename Source>
    const Burst* first(const Source& source) const {
        return source.bursts.empty() || source.bursts.front().arrives > now_ ? nullptr : &source.bursts.front();
    }
    bool read(Reader& reader) {
        const Burst* burst = reader.head(now_);
        uint64_t done;
        if (burst == nullptr || !banks_.read(banks_.place(burst->address), from_, until_, &done)) return false;
        reader.serve(cycle(done) + reader.latency() - request_cycles(reader.latency()));
        return true;
    }
    template <typename Source>
    bool write(Source& source) {
        if (source.bursts.empty() || source.bursts.front().arrives > now_) return false;
        uint64_t done;
        if (!banks_.write(banks_.place(source.bursts.front().address), from_, until_, &done)) return false;
        ++written_;
        source.serve(cycle(done) + latency_back(source));
        return true;
    }
    uint32_t latency_back(const Writer& writer) const { return writer.latency() - request_cycles(writer.latency()); }
    uint32_t latency_back(const Fill&) const { return 0; }

    Ports ports_;
    Ddr4Banks banks_;
    const uint64_t khz_, refi_, clock_khz_;
    uint64_t refresh_at_;
    // the cycle at hand and its DRAM clocks
    uint64_t now_ = 0, from_ = 0, until_ = 0;
    uint32_t next_ = 0;
    uint32_t written_ = 0;
    bool writing_ = false;
    // for `uses`: when the last refresh ends; whether no word was carried since a turn; whose word was the first of
    // this cycle, and the last of all
    uint64_t refreshed_at_ = 0;
    bool turned_ = false;
    BusUses::Use begun_ = BusUses::NOTHING, carried_ = BusUses::NOTHING;
    BusUses uses_;
};

}  // namespace nearkv
