/* SPDX-License-Identifier: Apache-2.0 */
/* The pulse: writes the bus pages, sends the heads of all topics as notices. Under the lock. */
#ifndef TICKBUS_PUBLISHER_PULSE_H
#define TICKBUS_PUBLISHER_PULSE_H

#include "publisher/state.h"

/* The interval of pulses: a quarter of the stale bound. */
#define PULSE_QUARTER_MS(publisher) ((publisher)->stale_ms / 4)

/* The first pulse is due one interval from now. */
void pulse_begin(struct tb_publisher *);
/* Whether a pulse is due by bus/clock.h. If so, the next is due at the end of this interval. */
bool pulse_due(struct tb_publisher *);
/* Writes pulse and entries on the bus pages of these realms, a bit for each. */
void pulse_write(struct tb_publisher *, uint32_t realms);
/* Once each interval: counts the watched topics whose writer made no call since the last time. */
void pulse_count_silence(struct tb_publisher *);

#endif
