/* SPDX-License-Identifier: Apache-2.0 */
/* The bus, its topics and its feeds that pubd runs, from its settings. */
#ifndef TICKBUS_PUBD_DAEMON_H
#define TICKBUS_PUBD_DAEMON_H

#include "bus/log.h"
#include "config/settings.h"
#include "publisher/feeds/feed.h"
#include "tickbus/publisher.h"

struct daemon;

/* Opens the bus, creates the topics, opens the feeds and starts them. `end_requested` is asked
 * between topics: if it returns true, nothing more is created and no feed starts. Settings (checked
 * by fit.h) and log must outlive the daemon. done_fd is an eventfd that is written when a feed is
 * over. 0, or -errno from tb_publisher_open, tb_topic_create or feed_open. */
int daemon_open(struct daemon **, const struct settings *, struct log *,
		bool (*end_requested)(void), int done_fd);

/* Reads the ticket files of the realms, and changes the tickets that are different now. A file that
 * is wrong leaves the realm's ticket as it is. The log says what changed and what is wrong. */
void daemon_reload_tickets(struct daemon *);

/* True if every feed is over and has `at_end: exit`. */
bool daemon_done(const struct daemon *);

/* True if another publisher has an address of the bus. done_fd is written then, too. */
bool daemon_lost(const struct daemon *);

/* Stops the feeds and ends the topics; subscribers can still read them. */
void daemon_end(struct daemon *);

/* True if every subscriber has left its topics, as subscribers do at the end of a topic. */
bool daemon_readers_left(const struct daemon *);

enum daemon_outcome {
	DAEMON_GOOD,
	DAEMON_FAILED,     /* a feed ended with an error, or an address is lost */
	DAEMON_INCOMPLETE, /* a feed with `incomplete: fail` had an incomplete day */
};

/* Stops the feeds, logs the subscribers that have not read to the end, frees. Takes NULL. */
enum daemon_outcome daemon_close(struct daemon *);

#endif
