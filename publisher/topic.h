/* SPDX-License-Identifier: Apache-2.0 */
/* A topic and its writer.
 *
 * T1  The hot fields belong to the writing thread. Nobody else reads or writes them.
 * T2  memory, exposures, shape and what hangs on them change only under the publisher's lock: at
 *     creation and at a restart. The control thread reads them under the lock.
 * T3  The control thread learns of the writer's work through the progress line's head word, and
 *     through the atomics in `wakeup`, `touched`, `restarts` and `end_due`. */
#ifndef TICKBUS_PUBLISHER_TOPIC_H
#define TICKBUS_PUBLISHER_TOPIC_H

#include <pthread.h>

#include "bus/directory.h"
#include "bus/fabric.h"
#include "bus/memory.h"
#include "bus/progress.h"
#include "bus/region.h"
#include "publisher/names.h"
#include "publisher/wakeup.h"
#include "bus/bounds.h"
#include "tickbus/publisher.h"

#define TOPIC_UNPUBLISHED_MAX 16384 /* names; records of further ones are counted in all */

struct join;

/* Of one memory: for each listener and realm; NULL: not exposed there. */
struct exposures {
	struct exposure *of[BOUND_LISTENERS_MAX][BOUND_REALMS_MAX];
};

struct tb_topic {
	/* The writing thread's (T1). */
	char *ring;
	char *last_value; /* NULL: none */
	struct progress_line *line;
	struct progress progress; /* as the line was last written */
	uint64_t sequence;        /* of the last record written */
	uint64_t slot_mask;
	uint64_t step;
	uint64_t salt, progress_salt, directory_salt;
	uint32_t slot_bytes, payload_max;
	bool checked, manual_flush, ended;
	bool more; /* is done for a record: a last value, a flush */
	struct names names;
	char *directory;
	struct wakeup wakeup;
	struct announcer *announcers[BOUND_LISTENERS_MAX];
	uint32_t announcer_count;
	uint64_t notices;
	_Atomic uint64_t announced, unannounced;
	_Atomic uint64_t flushes;
	_Atomic uint32_t touched; /* set by each call, cleared by the control thread */

	/* Told to the control thread (T3). */
	_Atomic uint32_t end_due;
	_Atomic uint64_t restarts;

	/* Under the publisher's lock (T2). */
	struct tb_publisher *publisher;
	struct memory memory;
	struct exposures exposures; /* shm: made when the first peer joins, and for all realms */
	uint32_t realms;            /* that may read it, a bit for each */
	uint32_t notice_group;      /* that its notices go to */
	struct region_shape shape;
	struct tb_schema *schema;
	char name[TB_TOPIC_NAME_MAX + 1];
	uint32_t flags;

	/* Under their own lock, never held for longer than a copy of a page. */
	pthread_mutex_t unpublished_lock;
	struct names unpublished;
	uint64_t unpublished_total;

	/* The control thread's, under the lock too, since topics come and go there. */
	struct join *joins;
	uint32_t join_count;
	uint64_t silent; /* quarters of the stale bound without a call of the writer */
	uint64_t restarts_told;
	bool end_told;
};

/* A topic that no one can see yet. id from 1. */
int topic_open(struct tb_topic **, struct tb_publisher *, const struct tb_topic_options *,
	       uint32_t id, int event_fd, bool fence_in_flush);
/* Takes half-built topics and NULL. */
void topic_close(struct tb_topic *);

/* The head that readers can see; by any thread, under the lock. */
uint64_t topic_head(const struct tb_topic *);

/* The schema's text is parsed again, so that a topic owns what it needs. */
int topic_schema_copy(const struct tb_schema *, struct tb_schema **);

#endif
