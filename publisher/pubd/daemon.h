/* SPDX-License-Identifier: Apache-2.0 */
/* What pubd runs: a bus with its topics, and the feeds that write them, from its settings. */
#ifndef TICKBUS_PUBD_DAEMON_H
#define TICKBUS_PUBD_DAEMON_H

#include "bus/log.h"
#include "config/settings.h"
#include "publisher/feeds/feed.h"
#include "tickbus/publisher.h"

struct daemon;

/* Opens the bus, makes the topics, opens the feeds and starts them; `ends` is asked between topics
 * whether to leave it at what there is, and no feed starts then. The settings, which were fitted
 * (fit.h), and the log must outlive it; done_fd is an eventfd that is written when a feed is over.
 * 0, or -errno as tb_publisher_open, tb_topic_create and feed_open give it. */
int daemon_open(struct daemon **, const struct settings *, struct log *, bool (*ends)(void),
		int done_fd);

/* Whether every feed is over and all of them said `at_end: exit`. */
bool daemon_done(const struct daemon *);

/* Stops the feeds and ends the topics; subscribers are served on. */
void daemon_end(struct daemon *);

/* Whether every subscriber has left its topics, as those do who read to the end. */
bool daemon_left(const struct daemon *);

/* Stops the feeds, logs who has not read to the end, frees. Whether every feed that was over had
 * come to its end. Takes NULL. */
bool daemon_close(struct daemon *);

#endif
