/* SPDX-License-Identifier: Apache-2.0 */
/* The pulse: the bus pages, and the heads of all topics as notices. By the lock's owner. */
#ifndef TICKBUS_PUBLISHER_PULSE_H
#define TICKBUS_PUBLISHER_PULSE_H

#include "publisher/state.h"

/* Writes pulse and entries of the bus pages of these realms, a bit for each. */
void pulse_write(struct tb_publisher *, uint32_t realms);
/* Once in a quarter of the bound: whose writer made no call since the last time. */
void pulse_count_silence(struct tb_publisher *);

#endif
