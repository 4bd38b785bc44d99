/* SPDX-License-Identifier: Apache-2.0 */
/* Whether the publisher lives. */
#ifndef TICKBUS_SUBSCRIBER_PULSE_H
#define TICKBUS_SUBSCRIBER_PULSE_H

#include "bus/fabric.h"
#include "subscriber/state.h"

int pulse_open(struct tb_subscriber *, struct fabric_key);
void pulse_close(struct tb_subscriber *);
void pulse_look(struct tb_subscriber *);
void pulse_fetched(struct tb_subscriber *, int status);
bool pulse_unanswered(const struct tb_subscriber *);
void pulse_lost(struct tb_subscriber *);
/* The publisher is there, and does not have this topic: stale, with the words. False: what can
 * still be read is read first, of an epoch that was granted before, too. */
bool pulse_topic_missing(struct tb_source *, const char *text);

#endif
