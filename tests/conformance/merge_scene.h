/* SPDX-License-Identifier: Apache-2.0 */
/* For tests of merges. A group of topics has a log of what was written. A subscription checks
 * order, accounts and cuts against that log. */
#ifndef TICKBUS_TESTS_MERGE_SCENE_H
#define TICKBUS_TESTS_MERGE_SCENE_H

#include <stdbool.h>
#include <stdint.h>

#include "tickbus/publisher.h"
#include "tickbus/subscriber.h"

#define MERGE_TOPICS      4
#define MERGE_INSTRUMENTS 8
#define MERGE_LOG         32768 /* records of a topic in an epoch */
#define MERGE_EPOCHS      32

struct merge_written {
	uint64_t time_ns;
	uint32_t instrument;
	uint8_t kind;
};

/* What was written to a topic in an epoch. */
struct merge_log {
	uint64_t epoch, count;
	unsigned int era;
	struct merge_written *written; /* by sequence */
};

/* A topic of the group as its writer knows it, and what the subscription delivered of it. */
struct merge_topic {
	const char *name;
	struct tb_topic *topic;
	struct merge_log logs[MERGE_EPOCHS];
	unsigned int epochs;
	/* The subscription. */
	uint64_t epoch, position, joined; /* joined: the position at the last appearance */
	uint64_t delivered, lost, gaps;
	uint64_t value[MERGE_INSTRUMENTS]; /* sequence of the present value; 0: none */
	bool ended, left, stale, refused;
};

struct merge_scene {
	struct tb_publisher *publisher;
	struct tb_group *group;
	struct merge_topic topics[MERGE_TOPICS];
	struct tb_subscriber *subscriber;
	struct tb_subscription *subscription;
	uint64_t records, values, images, completes, gaps, lefts, appeared, restarts, refusals,
		endings;
	uint64_t passed;   /* records that were neither delivered nor reported in a gap */
	uint64_t counted;  /* by merge_scene_poll */
	unsigned int eras; /* of the group, so far */
	unsigned int last_era;
	uint64_t last_ns; /* of the order */
	uint32_t last_topic;
	uint64_t cut_ns;        /* of the last complete event */
	uint64_t came_ns;       /* time_ns of the last appearance */
	uint64_t time_ns, back; /* of the start, for TB_FROM_TIME and TB_FROM_LAST */
	int code;               /* of the last event that has it */
	char words[512];
	char text[4096]; /* records and events, as long as there is room */
	char wrong[512]; /* the first breach */
};

/* The first `topics` topics of a group "nasdaq" on the publisher: f.quote, f.trade, f.cancel,
 * f.status. */
void merge_scene_write(struct merge_scene *, struct tb_publisher *, unsigned int topics,
		       uint32_t slots, uint32_t flags);
void merge_scene_topic(struct merge_scene *, unsigned int topic, uint32_t slots, uint32_t flags);
void merge_scene_message(struct merge_scene *);
/* Times begin again, in new epochs of all topics that have not ended. */
void merge_scene_message_again(struct merge_scene *);
void merge_scene_put(struct merge_scene *, unsigned int topic, uint32_t instrument, uint8_t kind);
void merge_scene_flush(struct merge_scene *);
void merge_scene_restart(struct merge_scene *, unsigned int topic);

/* READs line after line, so that a test need not wait for a pace. */
void merge_scene_connect(struct merge_scene *, const char *scheme);
void merge_scene_subscribe(struct merge_scene *, const char *pattern, enum tb_from from,
			   enum tb_gap gap);
/* Polls for 64 records. */
int merge_scene_poll(struct merge_scene *);
/* Polls until all that was written and not left out is accounted for: delivered, lost or skipped.
 */
bool merge_scene_settle(struct merge_scene *);
/* Polls until *value is at least this. */
bool merge_scene_until(struct merge_scene *, const uint64_t *value, uint64_t least);
/* Begins a new subscription's checks. */
void merge_scene_unsubscribe(struct merge_scene *);
/* Begins again with another publisher, before a subscription. */
void merge_scene_free(struct merge_scene *);

#endif
