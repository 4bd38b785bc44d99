/* SPDX-License-Identifier: Apache-2.0 */
/* The publisher's side: records, messages, and the life of its topics. Each write is in the truth
 * before it begins. */
#ifndef TICKBUS_TESTS_SIMULATION_WRITER_H
#define TICKBUS_TESTS_SIMULATION_WRITER_H

#include "tests/simulation/world.h"

/* A topic that takes records, by chance; NULL: it takes no records now. */
struct sim_topic *writer_any(void);
/* The number of instrument i, which is registered if needed. */
int writer_instrument(struct sim_topic *, uint32_t i);
void writer_publish(struct sim_topic *, uint32_t instrument, uint8_t kind, uint8_t flags);
/* A record of any kind and instrument; `last` ends its message. */
void writer_publish_any(struct sim_topic *, bool last);
void writer_message(struct sim_topic *);
/* Ends the open message. */
void writer_finish(struct sim_topic *);
/* Some records, a quality or a name. */
void writer_some(void);
/* Flushes the topic, or its group. */
void writer_flush(struct sim_topic *);
/* Ends the open message of the group, in each topic but this. */
void writer_finish_all(const struct sim_topic *but);
/* The ticket of a realm that has all topics; NULL: there are no realms. */
const uint8_t *writer_ticket(void);
/* A flush has ended. */
void writer_flushed(struct sim_topic *);
/* Creates the topic, unless it exists. */
void writer_make(struct sim_topic *);
/* The publisher's process is gone. */
void writer_gone(void);

#endif
