// SPDX-License-Identifier: Apache-2.0
// C functions around nearkv::Card, for ctypes (rtl.py). No logic.
#include <algorithm>

#include "card.hpp"

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
void nearkv_card_configure(Card* card, const nearkv::Config* config) {
    card->configure(*config);
}
void nearkv_card_hang_after(Card* card, uint64_t words) {
    card->out().words_until_hang = words;
}
void nearkv_card_fill(Card* card, uint64_t address, uint64_t nbytes) {
    card->fill().add(address, nbytes);
}
void nearkv_card_drain(Card* card) {
    card->drain();
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
void nearkv_card_pause(Card* card, uint64_t limit, uint32_t wall_ms) {
    card->pause(limit, wall_ms);
}
void nearkv_card_tick(Card* card, uint64_t cycles) {
    while (cycles-- != 0) card->tick();
}
int nearkv_card_busy(Card* card) {
    return card->busy();
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
// False, and nothing in `counts`, for an ideal memory.
int nearkv_card_bus_uses(Card* card, uint64_t* counts) {
    const nearkv::BusUses* uses = card->bus_uses();
    if (uses == nullptr) return 0;
    *std::copy(uses->cycles.begin(), uses->cycles.end(), counts) = uses->turns;
    return 1;
}
const char* nearkv_card_broken(Card* card) {
    return card->broken();
}
int nearkv_card_wave(Card* card, const char* path) {
    return card->wave(path);
}
}
