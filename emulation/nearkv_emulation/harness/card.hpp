// SPDX-License-Identifier: Apache-2.0
// The Verilated kernel with memory behind its masters: one object is one card. All of the clock loop is here; nothing
// calls back.
#pragma once

#include <chrono>
#include <memory>

#include "Vnearkv_attend.h"
#include "Vnearkv_attend___024root.h"
#include "config.hpp"
#include "verilated.h"
#ifdef NEARKV_WAVE
#include "verilated_fst_c.h"
#endif

namespace nearkv {

class Card {
  public:
    explicit Card(uint64_t seed)
        : kv_("m_axi_kv", spaces_[0], timing_[0], seed + 1),
          ctl_("m_axi_ctl", spaces_[1], timing_[1], seed + 2),
          out_("m_axi_out", spaces_[2], timing_[2], seed + 3) {
        configure({300000, 0, 3e9, {}});
        context_.randReset(2);
        context_.randSeed(static_cast<int>(seed % 0x7fffffff) + 1);
        top_.reset(new Vnearkv_attend(&context_, "nearkv_attend"));
        top_->ap_clk = 0;
        reset(20);
    }
    ~Card() {
#ifdef NEARKV_WAVE
        if (trace_) trace_->close();
#endif
        // Verilator's scopes sign off at the thread's latest context, which may be that of a card that is gone.
        Verilated::threadContextp(&context_);
        top_->final();
        top_.reset();
    }

    Space& space(int master) { return spaces_[master]; }
    Timing& timing(int master) { return timing_[master]; }
    Fill& fill() { return fill_; }
    Writer& out() { return out_; }
    // Replaces the channel; nothing may be on its way.
    void configure(const Config& config) {
        channel_ = make_channel({kv_, ctl_, out_, fill_}, config);
        clock_khz_ = config.clock_khz;
    }
    uint64_t cycles() const { return cycles_; }
    uint64_t words(int master) const {
        const uint64_t words[] = {kv_.words, ctl_.words, out_.words, fill_.words};
        return words[master];
    }
    // What the channel's bus did so far; null for an ideal memory.
    const BusUses* bus_uses() const { return channel_->uses(); }
    bool interrupt() const { return top_->__SYM__interrupt; }
    const char* broken() const {
        for (const Rules* rules : {&kv_.rules, &ctl_.rules, &out_.rules})
            if (!rules->broken.empty()) return rules->broken.c_str();
        return "";
    }
    // Whether a list runs or is about to: outside of that the kernel waits and its clock changes nothing.
    bool busy() const {
        const Vnearkv_attend___024root& root = *top_->rootp;
        return root.nearkv_attend__DOT__registers__DOT__busy_reg ||
               (root.nearkv_attend__DOT__registers__DOT__start_reg &&
                !root.nearkv_attend__DOT__registers__DOT__done_reg);
    }

    void reset(uint32_t cycles) {
        top_->ap_rst_n = 0;
        top_->s_axi_control_awvalid = top_->s_axi_control_wvalid = top_->s_axi_control_arvalid = 0;
        top_->s_axi_control_bready = top_->s_axi_control_rready = 1;
        clear();
        drive();
        for (uint32_t i = 0; i < cycles; ++i) tick();
        clear();
        top_->ap_rst_n = 1;
        drive();
        top_->eval();
    }

    bool write(uint32_t address, uint32_t value) {
        top_->s_axi_control_awaddr = address;
        top_->s_axi_control_wdata = value;
        top_->s_axi_control_wstrb = 15;
        top_->s_axi_control_awvalid = top_->s_axi_control_wvalid = 1;
        top_->eval();
        const bool done = until(top_->s_axi_control_awready);
        top_->s_axi_control_awvalid = top_->s_axi_control_wvalid = 0;
        top_->eval();
        return done && until(top_->s_axi_control_bvalid);
    }
    bool read(uint32_t address, uint32_t* value) {
        top_->s_axi_control_araddr = address;
        top_->s_axi_control_arvalid = 1;
        top_->eval();
        const bool done = until(top_->s_axi_control_arready);
        top_->s_axi_control_arvalid = 0;
        top_->eval();
        if (!done) return false;
        for (uint32_t i = 0; i < ANSWER_CYCLES && !top_->s_axi_control_rvalid; ++i) tick();
        if (!top_->s_axi_control_rvalid) return false;
        *value = top_->s_axi_control_rdata;
        tick();
        return true;
    }
    // Runs until the interrupt rises or `limit` cycles have passed; returns the cycles.
    uint64_t run(uint64_t limit) {
        uint64_t n = 0;
        for (; n < limit && !top_->__SYM__interrupt; ++n) tick();
        return n;
    }
    // Lets `limit` cycles pass, less if a list ends or after `wall_ms` milliseconds of the machine's clock.
    void pause(uint64_t limit, uint32_t wall_ms) {
        const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(wall_ms);
        uint64_t n = 0;
        if (!busy()) {
            for (; n < limit && n < SETTLE_CYCLES; ++n) tick();
            rest(limit - n);
            return;
        }
        while (n < limit && busy()) {
            tick();
            if (++n % 256 == 0 && std::chrono::steady_clock::now() >= end) return;
        }
    }
    // Lets the pages that are on their way arrive, while the kernel waits.
    void drain() {
        for (; !fill_.idle(); ++cycles_) channel_->step(cycles_ + 1);
    }

    void tick() {
        // Inputs have settled: what this edge will see. Before a reset has been seen outputs may be anything.
        if (top_->ap_rst_n) edges();
        top_->ap_clk = 1;
        top_->eval();
        dump(1);
        ++cycles_;
        drive();
        top_->ap_clk = 0;
        top_->eval();
        dump(0);
    }

    // False when this library has no waveforms or the file cannot be opened.
    bool wave(const char* path) {
#ifdef NEARKV_WAVE
        context_.traceEverOn(true);
        trace_.reset(new VerilatedFstC);
        top_->trace(trace_.get(), 99);
        trace_->open(path);
        return trace_->isOpen();
#else
        (void)path;
        return false;
#endif
    }

  private:
    static constexpr uint32_t ANSWER_CYCLES = 1000;
    static constexpr uint32_t SETTLE_CYCLES = 16;

    bool until(const CData& flag) {
        for (uint32_t i = 0; i < ANSWER_CYCLES; ++i) {
            const bool seen = flag;
            tick();
            if (seen) return true;
        }
        return false;
    }
    // Time that passes while nothing but the drive works: the kernel's clock stands still.
    void rest(uint64_t cycles) {
        const uint64_t end = cycles_ + cycles;
        for (; cycles_ < end && !fill_.idle(); ++cycles_) channel_->step(cycles_ + 1);
        cycles_ = end;
    }
    // Waveforms are in time, so that cursors show what the clock of the card makes of it.
    uint64_t half_cycles_to_ps(uint64_t n) const {
        constexpr uint64_t PS_PER_HALF_KHZ = 500'000'000;
        return n / clock_khz_ * PS_PER_HALF_KHZ + n % clock_khz_ * PS_PER_HALF_KHZ / clock_khz_;
    }
    void clear() {
        kv_.reset();
        ctl_.reset();
        out_.reset();
    }
    void edges() {
        kv_.edge(cycles_,
                 {top_->m_axi_kv_arvalid != 0, top_->m_axi_kv_araddr, top_->m_axi_kv_arlen, top_->m_axi_kv_arid,
                  top_->m_axi_kv_arsize, top_->m_axi_kv_arburst},
                 top_->m_axi_kv_rready, channel_->request_cycles(timing_[0].latency));
        ctl_.edge(cycles_,
                  {top_->m_axi_ctl_arvalid != 0, top_->m_axi_ctl_araddr, top_->m_axi_ctl_arlen, top_->m_axi_ctl_arid,
                   top_->m_axi_ctl_arsize, top_->m_axi_ctl_arburst},
                  top_->m_axi_ctl_rready, channel_->request_cycles(timing_[1].latency));
        out_.edge(cycles_,
                  {top_->m_axi_out_awvalid != 0, top_->m_axi_out_awaddr, top_->m_axi_out_awlen, top_->m_axi_out_awid,
                   top_->m_axi_out_awsize, top_->m_axi_out_awburst},
                  {top_->m_axi_out_wvalid != 0, top_->m_axi_out_wdata.data(), top_->m_axi_out_wstrb,
                   top_->m_axi_out_wlast != 0},
                  top_->m_axi_out_bready, channel_->request_cycles(timing_[2].latency));
    }
    template <typename Data>
    static void fetch(Data& data, const Reader::Shown& shown) {
        if (shown.data != nullptr)
            std::memcpy(data.data(), shown.data, WORD_BYTES);
        else
            std::memset(data.data(), 0, WORD_BYTES);
    }
    void drive() {
        channel_->step(cycles_);
        kv_.drive(cycles_);
        ctl_.drive(cycles_);
        out_.drive(cycles_);
        top_->m_axi_kv_arready = kv_.ready;
        top_->m_axi_kv_rvalid = kv_.out.valid;
        if (kv_.fresh) {
            fetch(top_->m_axi_kv_rdata, kv_.out);
            top_->m_axi_kv_rid = kv_.out.id;
            top_->m_axi_kv_rresp = kv_.out.resp;
            top_->m_axi_kv_rlast = kv_.out.last;
        }
        top_->m_axi_ctl_arready = ctl_.ready;
        top_->m_axi_ctl_rvalid = ctl_.out.valid;
        if (ctl_.fresh) {
            fetch(top_->m_axi_ctl_rdata, ctl_.out);
            top_->m_axi_ctl_rid = ctl_.out.id;
            top_->m_axi_ctl_rresp = ctl_.out.resp;
            top_->m_axi_ctl_rlast = ctl_.out.last;
        }
        top_->m_axi_out_awready = out_.aw_ready;
        top_->m_axi_out_wready = out_.w_ready;
        top_->m_axi_out_bvalid = out_.b_valid;
        top_->m_axi_out_bresp = out_.b_resp;
        top_->m_axi_out_bid = 0;
    }
    // The clock has just risen (phase 1; the cycle is not counted yet) or fallen (phase 0; it is).
    void dump(int phase) {
#ifdef NEARKV_WAVE
        if (trace_) trace_->dump(half_cycles_to_ps(2 * cycles_ - static_cast<uint64_t>(1 - phase)));
#else
        (void)phase;
#endif
    }

    VerilatedContext context_;
    Space spaces_[3];
    Timing timing_[3];
    Reader kv_;
    Reader ctl_;
    Writer out_;
    Fill fill_;
    std::unique_ptr<Channel> channel_;
    std::unique_ptr<Vnearkv_attend> top_;
    uint64_t cycles_ = 0;
    uint64_t clock_khz_ = 0;
#ifdef NEARKV_WAVE
    std::unique_ptr<VerilatedFstC> trace_;
#endif
};

}  // namespace nearkv
