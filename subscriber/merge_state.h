/* SPDX-License-Identifier: Apache-2.0 */
/* How far a merge may go: its group, the time T, and the topics that hold it up. Calls no handler.
 */
#ifndef TICKBUS_SUBSCRIBER_MERGE_STATE_H
#define TICKBUS_SUBSCRIBER_MERGE_STATE_H

#include <stdbool.h>
#include <stdint.h>

#include "bus/control.h"
#include "bus/progress.h"
#include "subscriber/state.h"

/* A topic whose next record is known: its place in the order. */
struct merge_place {
	uint64_t time_ns;
	uint32_t topic_id;
	struct tb_source *source;
};

/* What a sleeper has to know. */
enum merge_work {
	MERGE_WORK_NONE,
	MERGE_WORK_SOON, /* something is published and may not be delivered yet */
	MERGE_WORK_NOW,  /* records can be delivered */
};

struct merge {
	const struct tb_source *waits_for;    /* the topic that held the last poll back, or NULL */
	uint64_t bus_id;                      /* of the publisher whose group is merged */
	uint32_t group;                       /* with its era; 0: no topic has been asked for yet */
	char group_of[TB_TOPIC_NAME_MAX + 1]; /* the topic that decided the group */
	bool free;                            /* all topics have ended: another group may come */
	bool rests;          /* the last poll left nothing to do, and no line came since */
	bool leaves;         /* some topic does */
	bool begun;          /* false: it waits until all topics are joined */
	bool draining;       /* a new publisher or era: the old rings come first */
	bool completed;      /* the first image of all topics is complete */
	bool image_first;    /* in polls for a single record */
	bool all_over;       /* no topic bounds T any more */
	bool news;           /* a topic seems to have new records */
	uint64_t time_ns;    /* T */
	uint64_t limit_ns;   /* records up to it may be delivered: T, or no limit */
	uint64_t newest_ns;  /* the largest W of its topics */
	uint64_t last_ns;    /* the time of the last record delivered */
	uint32_t last_topic; /* its topic's id */
	uint64_t lag_ms;     /* since when T stands below newest_ns; 0: it does not */
	uint64_t round;      /* the last pass over all topics that polled it */
	enum merge_work work;
	uint32_t count;             /* places in use */
	struct merge_place place[]; /* a heap: the first is the lowest. topics_max of them */
};

/* NULL: no memory. */
struct merge *merge_state_new(uint32_t topics_max);

/* The topics of the bus are asked for. */
void merge_state_catalogue(struct tb_subscription *);
/* Whether a topic of the catalogue belongs to the merged group. The first topic decides. 0 or
 * -EINVAL. */
int merge_state_fits(struct tb_subscription *, const struct control_topic *);
/* Whether the topic's epoch is of an era that the group has left (MG3). */
bool merge_state_is_older(const struct tb_source *);
/* Whether its epoch is older, and the merge has gone on to the next era. Then nothing of it can be
 * merged. */
bool merge_state_is_late(const struct tb_source *);
/* An ended topic of an older era cannot begin. -EINVAL. */
int merge_state_refuse(const struct tb_source *);
/* Takes W of a valid line. Before the line is judged. */
void merge_state_line(struct tb_source *, const struct progress *);
/* Whether a topic with this line may join now. If so, sets what it skips. */
bool merge_state_may_start(struct tb_source *, const struct progress *);
/* The join of a topic's next epoch, or of its old epoch over a new connection, was refused. */
void merge_state_refused(struct tb_source *, int code);
/* Whether the topic's line holds T back. */
bool merge_state_limits(const struct tb_source *);
/* Whether the line is to be read, although records may wait. Not while a record can be delivered:
 * that would wait for the line (N6). */
bool merge_state_needs_line(const struct tb_source *);
/* Whether that line has news for sure. */
bool merge_state_wants_line(const struct tb_source *);
/* Whether the topic's line stood still for the stale bound, although lines of its group moved. */
bool merge_state_lags(const struct tb_source *);
/* Whether the topic has no present memory: its connection was lost, or its publisher has another
 * epoch of it. */
bool merge_state_is_away(const struct tb_source *);
/* Whether the merge has gone on without the topic, so that its next epoch joins at T. */
bool merge_state_is_past(const struct tb_source *);
/* Takes T, and what follows from it, from the lines of all topics. */
void merge_state_update(struct tb_subscription *);

/* Whether the topic takes part: its line bounds T, and its records are merged. */
static inline bool merge_state_has(const struct tb_source *source)
{
	return source->state <= SOURCE_RUNNING && source->next != 0 && !source->left;
}

/* Whether nothing more will come than what the topic's memory holds now. The last line of a topic
 * that is leaving is read first, if its memory can still be read. */
static inline bool merge_state_is_over(const struct tb_source *source)
{
	return (source->leaving && (source->final || source->orphan)) ||
	       source->subscription->merge->draining ||
	       (source->finished && source->next > source->head && !source->has_successor);
}

#endif
