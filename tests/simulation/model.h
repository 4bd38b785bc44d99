/* SPDX-License-Identifier: Apache-2.0 */
/* What a subscriber of one topic may see. The rules come from docs/protocol.md, the public header
 * and the design; the model shares no code with the library. It compares each call of a handler
 * with the truth (truth.h).
 *
 * Y1  Positions. Each sequence from the start on is a record, a part of a gap, a quality event, or
 *     skipped, and nothing else. They come in order. No event has a position beyond its head.
 * Y2  A record is what was published under its epoch and sequence, each byte.
 * Y3  Records are lost only where the rules allow it. Overrun, before join: below what the writer
 *     has reserved, less a ring. Upstream: holes. Corrupt: the slot was overwritten by a stranger.
 * Y4  A new epoch is newer, and begins with sequence 1. A mapped old epoch was read to its end.
 * Y5  A quality is the truth at the position, or a newer quality. Good is never ahead.
 * Y6  An image covers sequences up to its base. Its records are the values at the base, each once,
 *     and each newer than what the program has.
 * Y7  When an image is complete, the program's table is the publisher's table at that sequence, and
 *     a message ends there. From then on it stays equal until a gap.
 * Y8  The counters are the sums of what the handlers got, and of what was skipped.
 * Y9  With a list of chosen instruments, exactly the records of the others are skipped, and their
 *     values are in no image. Holes and qualities come in any case. */
#ifndef TICKBUS_TESTS_SIMULATION_MODEL_H
#define TICKBUS_TESTS_SIMULATION_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include "tests/simulation/picks.h"
#include "tests/simulation/truth.h"
#include "tickbus/subscriber.h"

#define MODEL_MISSING 16
#define EXEMPT_MAX    2

struct order;

/* What the program knows of one topic. */
struct model {
	const char *topic;
	const struct truth_epoch *refused; /* by the merge: it ended in an earlier era */
	struct order *order;               /* of the merge; NULL: no merge (order.h) */
	const struct picks *picks;         /* the chosen instruments; NULL: all */
	unsigned int number;               /* of the subscriber, for messages */
	enum tb_from from;
	enum tb_gap gap;
	uint64_t from_epoch, from_sequence;
	bool view;             /* memory is mapped: an old epoch can be read to its end */
	bool calm;             /* nothing goes wrong any more: no topic may become stale */
	bool batches;          /* records come in batches */
	uint64_t conflates_ns; /* the interval of a conflation; 0: no conflation */
	bool conflates;        /* now: it begins behind the image, if there is any */
	uint64_t floor;        /* a conflation leaves out values before its first record */
	uint64_t accounted;    /* positions of earlier epochs, in a conflation */
	uint64_t came_ns[TRUTH_INSTRUMENTS][3]; /* when the last values of a conflation came */
	uint64_t added[TRUTH_INSTRUMENTS];      /* it was chosen when so many were published */
	uint8_t exempt[EXEMPT_MAX];             /* kinds that are not conflated; 0: no kind */
	uint64_t exempt_next; /* records of exempt kinds below it came, or are lost */
	bool watches;         /* values come instead of records (values.h) */
	bool trace;           /* prints each call */
	/* At the subscription: the newest epoch, and how far it was flushed. */
	unsigned int epochs_before;
	uint64_t flushed_before;

	const struct truth_epoch *epoch; /* NULL: it has not appeared */
	uint64_t next, started;
	bool first_gap; /* no record came since the start */
	bool stale, ended;
	int stale_code;
	/* Names of which the topic had no instrument, as events said. The topic had these
	 * instruments when the list changed last. */
	unsigned int missing_count;
	char missing[MODEL_MISSING][PICKS_TEXT];
	uint32_t instruments_before;
	bool restarted;     /* a merge that was ahead begins its new epoch with another event */
	bool joins;         /* it had left or ended, so it appears again in its new epoch */
	bool left;          /* the merge goes on without it */
	bool back;          /* and came back in its epoch, or resumes it: its image has each
			     * stored clear */
	uint64_t joined_ns; /* it joined a merge that had come so far */
	uint32_t listed;    /* names in the list after its last change */
	uint32_t chosen, unchosen; /* names that were, or were not, in the list at some time since
				    * the position was certain */
	uint32_t quality;
	bool doubt; /* the record of a change of the quality may be lost */

	/* The image, and the program's table: the sequence of each value, 0: it has no value. */
	bool imaging, whole;
	bool due; /* an image must begin: the start, or a gap that is to be repaired */
	uint64_t base;
	uint64_t table[TRUTH_INSTRUMENTS];
	uint64_t seen[TRUTH_INSTRUMENTS]; /* the last delivered record that changed the value */
	bool any[TRUTH_INSTRUMENTS];      /* a record of it was delivered in this epoch */
	bool unread[TRUTH_INSTRUMENTS];   /* reported as never readable in this image */
	bool dirty[TRUTH_INSTRUMENTS];    /* its row is not known, since its value is unreadable */

	/* Sums for the counters. */
	uint64_t values, records, lost[5], skipped, restarts, stales, images, image_records;
	uint64_t called; /* calls of on_record */
};

/* The first thing that was wrong; "": nothing was. */
extern char model_wrong[1024];
void model_complain(const struct model *, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

void model_begin(struct model *, const char *topic, const struct tb_subscription_options *);
void model_record(struct model *, const struct tb_source *, const struct tb_record *);
void model_event(struct model *, const struct tb_event *);
/* The list of chosen instruments has changed, at this text. */
void model_choose(struct model *, const char *text);
/* How many records, from the position on and below `sequence`, are skipped without a call. */
uint64_t model_passed(const struct model *, uint64_t sequence);
/* How many records the subscriber may have skipped behind the position. Records before them may
 * wait in a batch. */
uint64_t model_passed_most(const struct model *);
/* How many records lie from the start up to `sequence`. A start may lie beyond the head. */
uint64_t model_behind(const struct model *, uint64_t sequence);
/* Nothing is missing: the position is behind the last record. */
void model_rest(struct model *);
/* Nothing is missing: the subscriber knows all there is to know. Returns what is missing, or NULL.
 */
const char *model_unsettled(const struct model *);

#endif
