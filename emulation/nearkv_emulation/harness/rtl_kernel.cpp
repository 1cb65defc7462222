// SPDX-License-Identifier: Apache-2.0
// The Verilated kernel with memory behind its masters, as a C library. One object is one card: registers, cycles,
// regions. All of the clock loop is here; nothing calls back.
#include <cstdio>
#include <memory>

#include "Vnearkv_attend.h"
#include "memory.hpp"
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
        top_->final();
    }

    Space& space(int master) { return spaces_[master]; }
    Timing& timing(int master) { return timing_[master]; }
    uint64_t cycles() const { return cycles_; }
    uint64_t words(int master) const { return master == 0 ? kv_.words : master == 1 ? ctl_.words : out_.words; }
    bool interrupt() const { return top_->__SYM__interrupt; }
    const char* broken() const {
        return !kv_.broken.empty()    ? kv_.broken.c_str()
               : !ctl_.broken.empty() ? ctl_.broken.c_str()
                                      : out_.broken.c_str();
    }

    void reset(uint32_t cycles) {
        top_->ap_rst_n = 0;
        top_->s_axi_control_awvalid = top_->s_axi_control_wvalid = top_->s_axi_control_arvalid = 0;
        top_->s_axi_control_bready = top_->s_axi_control_rready = 1;
        kv_.reset();
        ctl_.reset();
        out_.reset();
        drive();
        for (uint32_t i = 0; i < cycles; ++i) tick();
        kv_.reset();
        ctl_.reset();
        out_.reset();
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
        const bool done = until(top_->s_axi_control_awready, true);
        top_->s_axi_control_awvalid = top_->s_axi_control_wvalid = 0;
        top_->eval();
        return done && until(top_->s_axi_control_bvalid, true);
    }
    bool read(uint32_t address, uint32_t* value) {
        top_->s_axi_control_araddr = address;
        top_->s_axi_control_arvalid = 1;
        top_->eval();
        const bool done = until(top_->s_axi_control_arready, true);
        top_->s_axi_control_arvalid = 0;
        top_->eval();
        if (!done) return false;
        for (int i = 0; i < 1000 && !top_->s_axi_control_rvalid; ++i) tick();
        if (!top_->s_axi_control_rvalid) return false;
        *value = top_->s_axi_control_rdata;
        tick();
        return true;
    }
    // Runs until the interrupt rises or `limit` cycles have passed; returns the cycles.
    uint64_t run(uint64_t limit) {
        uint64_t n = 0;
        while (n < limit && !top_->__SYM__interrupt) {
            tick();
            ++n;
        }
        return n;
    }

    void tick() {
        // Inputs have settled: what this edge will see. Before a reset has been seen outputs may be anything.
        if (top_->ap_rst_n) {
            kv_.edge(cycles_, top_->m_axi_kv_arvalid, top_->m_axi_kv_araddr, top_->m_axi_kv_arlen, top_->m_axi_kv_arid,
                     top_->m_axi_kv_rready);
            ctl_.edge(cycles_, top_->m_axi_ctl_arvalid, top_->m_axi_ctl_araddr, top_->m_axi_ctl_arlen,
                      top_->m_axi_ctl_arid, top_->m_axi_ctl_rready);
            out_.edge(cycles_, top_->m_axi_out_awvalid, top_->m_axi_out_awaddr, top_->m_axi_out_awlen,
                      top_->m_axi_out_wvalid, top_->m_axi_out_wdata.data(), top_->m_axi_out_wlast,
                      top_->m_axi_out_bready);
        }
        top_->ap_clk = 1;
        top_->eval();
        dump(1);
        ++cycles_;
        drive();
        top_->ap_clk = 0;
        top_->eval();
        dump(0);
    }

    bool wave(const char* path) {
#ifdef NEARKV_WAVE
        context_.traceEverOn(true);
        trace_.reset(new VerilatedFstC);
        top_->trace(trace_.get(), 99);
        trace_->open(path);
        return true;
#else
        (void)path;
        return false;
#endif
    }

  private:
    bool until(const CData& flag, bool edge) {
        for (int i = 0; i < 1000; ++i) {
            const bool seen = flag;
            if (seen == edge) {
                tick();
                return true;
            }
            tick();
        }
        return false;
    }
    void drive() {
        kv_.drive(cycles_);
        ctl_.drive(cycles_);
        out_.drive(cycles_);
        top_->m_axi_kv_arready = kv_.ready;
        top_->m_axi_kv_rvalid = kv_.out.valid;
        if (kv_.out.valid) {
            std::memcpy(top_->m_axi_kv_rdata.data(), kv_.out.data, WORD_BYTES);
            top_->m_axi_kv_rid = kv_.out.id;
            top_->m_axi_kv_rresp = kv_.out.resp;
            top_->m_axi_kv_rlast = kv_.out.last;
        }
        top_->m_axi_ctl_arready = ctl_.ready;
        top_->m_axi_ctl_rvalid = ctl_.out.valid;
        if (ctl_.out.valid) {
            std::memcpy(top_->m_axi_ctl_rdata.data(), ctl_.out.data, WORD_BYTES);
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
    void dump(int phase) {
#ifdef NEARKV_WAVE
        if (trace_) trace_->dump(2 * cycles_ + static_cast<uint64_t>(1 - phase));
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
    std::unique_ptr<Vnearkv_attend> top_;
    uint64_t cycles_ = 0;
#ifdef NEARKV_WAVE
    std::unique_ptr<VerilatedFstC> trace_;
#endif
};

}  // namespace nearkv

using nearkv::Card;

extern "C" {
Card* nearkv_card_new(uint64_t seed) {
    return new Card(seed);
}
void nearkv_card_free(Card* card) {
    delete card;
}
void nearkv_card_region(Card* card, int master, uint64_t base, uint8_t* memory, uint64_t nbytes) {
    card->space(master).add(base, memory, nbytes);
}
void nearkv_card_clear_regions(Card* card) {
    for (int master = 0; master < 3; ++master) card->space(master).clear();
}
void nearkv_card_timing(Card* card, int master, uint32_t latency, uint32_t stall, uint32_t reorder) {
    card->timing(master) = {latency, stall, reorder};
}
void nearkv_card_reset(Card* card, uint32_t cycles) {
    card->reset(cycles);
}
int nearkv_card_write(Card* card, uint32_t address, uint32_t value) {
    return card->write(address, value);
}
int nearkv_card_read(Card* card, uint32_t address, uint32_t* value) {
    return card->read(address, value);
}
uint64_t nearkv_card_run(Card* card, uint64_t limit) {
    return card->run(limit);
}
void nearkv_card_tick(Card* card, uint64_t cycles) {
    while (cycles-- != 0) card->tick();
}
int nearkv_card_interrupt(Card* card) {
    return card->interrupt();
}
uint64_t nearkv_card_cycles(Card* card) {
    return card->cycles();
}
uint64_t nearkv_card_words(Card* card, int master) {
    return card->words(master);
}
const char* nearkv_card_broken(Card* card) {
    return card->broken();
}
int nearkv_card_wave(Card* card, const char* path) {
    return card->wave(path);
}
}
