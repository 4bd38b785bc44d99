/* SPDX-License-Identifier: Apache-2.0 */
/* The pulse: the bus pages, and the heads of all topics as notices. By the lock's owner. */
#ifndef TICKBUS_PUBLISHER_PULSE_H
#define TICKBUS_PUBLISHER_PULSE_H

#include "publisher/state.h"

/* The pace of the pulse: a quarter of the stale bound. */
#define PULSE_QUARTER_MS(publisher) ((publisher)->stale_ms / 4)

/* From now on a pulse is due each quarter. */
void pulse_begin(struct tb_publisher *);
/* Whether a pulse is due by the clock; if so the next is due at the end of this quarter. */
bool pulse_due(struct tb_publisher *);
/* Writes pulse and entries of the bus pages of these realms, a bit for each. */
void pulse_write(struct tb_publisher *, uint32_t realms);
/* Once in a quarter of the bound: whose writer made no call since the last time. */
void pulse_count_silence(struct tb_publisher *);

#endif
