/* Odometer for the cargo bicycle: a reed switch at the fork counts turns of the wheel. */

#include <stdint.h>
#include "eeprom.h"

/* Millimetres of one turn, measured with two people on it. */
#define CIRCUMFERENCE 1987

/* A magnet that bounces gives two pulses: what comes within 40 milliseconds is one. */
#define DEBOUNCE_MS 40

static uint32_t turns;
static uint32_t last_pulse;

void on_pulse(uint32_t now)
{
    if (now - last_pulse < DEBOUNCE_MS)
        return;
    last_pulse = now;
    turns++;
}

/* Writing wears the memory out, so it is done once a kilometre. */
void save_if_due(void)
{
    static uint32_t saved;
    if ((turns - saved) * (uint64_t)CIRCUMFERENCE >= 1000000) {
        eeprom_write_u32(0, turns);
        saved = turns;
    }
}
