/* SPDX-License-Identifier: Apache-2.0 */
/* The subscribers: what they ask for, and how the model hears what they get. */
#ifndef TICKBUS_TESTS_SIMULATION_READERS_H
#define TICKBUS_TESTS_SIMULATION_READERS_H

#include "tests/simulation/world.h"

/* A place for a subscriber, by chance. */
struct sim_subscriber *readers_any(void);
struct model *readers_model(struct sim_subscriber *, const char *topic);
/* A new subscriber in this place, of the topic or of all topics. With `any` it may become a watch
 * list or a conflation. */
void readers_subscribe(struct sim_subscriber *, const struct sim_topic *, bool all,
		       struct tb_subscription_options, bool any);
/* Polls, and compares the counters. */
void readers_poll(struct sim_subscriber *, int max);
/* What is missing at rest; NULL: nothing. */
const char *readers_unsettled(struct sim_subscriber *);
/* Nothing is missing, so each position is known. */
void readers_rest(struct sim_subscriber *);
void readers_leave(struct sim_subscriber *);

#endif
