/* SPDX-License-Identifier: Apache-2.0 */
/* A topic's life: memory, epochs, restart, end. */
#ifndef TICKBUS_PUBLISHER_TOPIC_H
#define TICKBUS_PUBLISHER_TOPIC_H

#include "publisher/state.h"

/* 0, or -EINVAL with a message. */
int topic_options_check(const struct tb_topic_options *);
/* Makes a topic that no reader can see yet. The options must be checked; ids begin at 1. */
int topic_open(struct tb_topic **, struct tb_publisher *, const struct tb_topic_options *,
	       uint32_t id, int event_fd, bool fence_in_flush);
/* Takes half-built topics and NULL. */
void topic_close(struct tb_topic *);

#endif
