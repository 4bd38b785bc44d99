/* SPDX-License-Identifier: Apache-2.0 */
/* Conflation: which records of a topic are delivered, if a subscriber wants the newest value of
 * each instrument in each interval. Calls no handler and reads no memory of the publisher:
 * pull_conflate.c does that. */
#ifndef TICKBUS_SUBSCRIBER_CONFLATE_H
#define TICKBUS_SUBSCRIBER_CONFLATE_H

#include <stdbool.h>
#include <stdint.h>

#include "bus/progress.h"
#include "bus/record.h"
#include "bus/region.h"
#include "subscriber/exempt.h"

/* What an interval's end leads to. */
enum conflate_phase {
	CONFLATE_SLEEPS, /* the interval is not over */
	CONFLATE_LINE,   /* a progress line is to say how much is new */
	CONFLATE_WALK,   /* the ring is read up to that line */
	CONFLATE_PASS,   /* values that are due are copied */
};

struct conflate {
	enum conflate_phase phase;
	bool active;              /* false while an image is made first */
	bool exempts;             /* some kinds are exempt: the ring is always read */
	bool in_order;            /* some of them are values: no value is ahead (J-I6) */
	bool all;                 /* a gap may hide values of any instrument */
	bool whole;               /* this pass is over all instruments */
	bool pass_due;            /* this pass has not begun to copy */
	bool jumps;               /* the position moves to `target` behind this pass */
	bool hurries;             /* the topic ended or restarts: this interval ends now */
	const uint64_t *exempt;   /* a bit for each kind */
	uint64_t interval_ns;     /* 0: each poll is an interval */
	uint64_t ends_ns;         /* when this interval ends */
	uint64_t floor;           /* values up to it were there before the start */
	uint64_t target;          /* the head that the walk leads to, or the jump */
	uint64_t highest;         /* sequence that was delivered as a value */
	uint64_t replaced;        /* values ahead of the position that this jump delivered over */
	uint64_t quiet;           /* records that passed without a call of a handler */
	uint32_t capacity, range; /* range: instruments that a line has counted */
	uint32_t due_count;
	uint32_t held_count;
	unsigned int tries;      /* passes of this interval over copies that failed */
	bool line_asked, landed; /* a line was requested; it is in `line` */
	struct progress line;
	uint64_t *seen;      /* by instrument: the last delivered value */
	uint64_t *held;      /* by instrument: the newest value that the position passed and that is
			      * not delivered yet; 0: there is none */
	uint64_t *delivered; /* a bit each: some record of it was delivered */
	uint64_t *due;       /* a bit each: its slot is to be copied */
	uint64_t *late;      /* a bit each: its slot was ahead of the position (J-I6) */
};

/* What becomes of a record or a copy, and what it adds to the accounts. A copy that is older than
 * the ring adds nothing: its slot stays due. */
struct conflate_verdict {
	bool deliver;
	bool image; /* a value at or below the position that the accounts have already */
	uint8_t records, skipped;
};

/* For a topic of this shape. NULL: no memory. */
struct conflate *conflate_new(const struct region_shape *, const uint64_t *exempt,
			      uint64_t interval_ns, uint64_t now_ns);
void conflate_free(struct conflate *);

/* Begins behind the sequence `floor`: values up to it are not delivered. resumed: the program has
 * values of an earlier run, so each clear has a meaning (Z-I8). */
void conflate_begin(struct conflate *, uint64_t floor, bool resumed);
/* Begins behind an image: by instrument, what it delivered. */
void conflate_begin_imaged(struct conflate *, const uint64_t *seen, const uint64_t *delivered);

/* Whether the interval is over. If so the next interval begins, in phase with the first. */
bool conflate_interval_ends(struct conflate *, uint64_t now_ns);
/* Whether something is to be delivered at the end of the interval. */
bool conflate_owes(const struct conflate *);

/* The topic has ended. Nothing newer comes, so no interval is waited for. */
void conflate_ended(struct conflate *);

/* A line counts so many instruments. */
void conflate_counts(struct conflate *, uint32_t instruments);
/* Chooses the way to the head of a line that was loaded after the interval's end. `values`: how
 * many instruments the subscriber wants. */
void conflate_line(struct conflate *, uint64_t head, uint64_t values, uint64_t position);
/* The position reached the walk's target, or the ring is always read: values are copied. */
void conflate_pass_begins(struct conflate *);

/* Whether this record was delivered ahead of the position (Z-I3). */
bool conflate_came(const struct conflate *, const struct record *);
/* A record passes, at position + 1. Neither a hole nor a quality. */
struct conflate_verdict conflate_passes(struct conflate *, const struct record *);
/* The valid copy of a slot, while the position is `position`. */
struct conflate_verdict conflate_takes(struct conflate *, const struct record *copy,
				       uint64_t position);
/* The slot was never written. */
void conflate_empty(struct conflate *, uint32_t instrument);
bool conflate_is_due(const struct conflate *, uint32_t instrument);
/* The instrument is not wanted any more. Returns how many records are skipped by that. */
uint64_t conflate_forget(struct conflate *, uint32_t instrument);
/* The same for each instrument that has a bit. */
uint64_t conflate_leave(struct conflate *, const uint64_t *left);
/* Every slot was looked at. False: copies failed, and the pass begins again. */
bool conflate_pass_ends(struct conflate *);
/* The position moves over first to last in a jump or a gap: how many of them were delivered. */
uint64_t conflate_delivered_in(const struct conflate *, uint64_t first, uint64_t last);
/* Values may be lost in a gap. */
void conflate_lapped(struct conflate *);
/* The next record of the ring was overwritten. True: that loses nothing, because the position jumps
 * over it, in this interval or the next. */
bool conflate_overtaken(struct conflate *);
/* Values that are due cannot be read any more. Returns how many were held, and their range. */
uint64_t conflate_give_up(struct conflate *, uint64_t *first, uint64_t *last);
/* READs were lost with the connection. */
void conflate_interrupted(struct conflate *);

static inline bool conflate_is_active(const struct conflate *conflate)
{
	return conflate && conflate->active;
}

#endif
