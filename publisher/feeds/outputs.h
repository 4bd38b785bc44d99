/* SPDX-License-Identifier: Apache-2.0 */
/* Publishes what a market makes of messages, in the topics of a feed's group.
 *
 * A topic's last record of each message has the flag `last`. So a record of each topic is held
 * until the next record or the end of the message.
 *
 * Threads  the thread that writes the group.
 * Memory   allocated at open. */
#ifndef TICKBUS_FEEDS_OUTPUTS_H
#define TICKBUS_FEEDS_OUTPUTS_H

#include "publisher/feeds/market/market.h"
#include "publisher/feeds/feed_say.h"
#include "tickbus/publisher.h"

struct feed_topic {
	enum market_select select;
	struct tb_topic *topic;         /* of the feed's group, created with
					   TB_TOPIC_MARKS_MESSAGES */
	const struct tb_schema *schema; /* of the topic; lives as long as the feed */
};

struct outputs;

/* Topics are copied, `say` lives as long as the outputs. `full_level`: of the line about a topic
 * without room for an instrument. -EPROTO: a topic's schema does not fit its select; -ENOMEM. */
int outputs_open(struct outputs **, struct tb_group *, const struct feed_topic *topics,
		 size_t count, const struct feed_say *say, enum tb_log_level full_level);

/* Takes NULL. */
void outputs_close(struct outputs *);

/* Bits 1 << enum market_select of the topics. */
uint32_t outputs_wanted(const struct outputs *);

/* An output of the message with this number. */
void outputs_take(struct outputs *, uint64_t message, const struct market_output *);

#define OUTPUTS_SUSPECT 1

/* Publishes the last record of the message in each topic. 0, or the -errno of the first record that
 * could not be published: it stays. OUTPUTS_SUSPECT: a topic had no room for an instrument, or
 * the group's times began again. It is suspect from here on. */
int outputs_end_message(struct outputs *);

/* Empties the topics and forgets all instruments: 0 or -errno. */
int outputs_restart(struct outputs *);

#endif
