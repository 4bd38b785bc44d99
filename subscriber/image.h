/* SPDX-License-Identifier: Apache-2.0 */
/* What is known of a topic's values while an image is made. Calls no handler and reads no memory of
 * the publisher: pull_image.c does that. */
#ifndef TICKBUS_SUBSCRIBER_IMAGE_H
#define TICKBUS_SUBSCRIBER_IMAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "bus/progress.h"
#include "bus/record.h"
#include "bus/region.h"
#include "tickbus/subscriber.h"

#define IMAGE_LAPS 8 /* gaps in one image before the reader is reported as too slow */

/* Where an image is. The phases follow each other; a gap leads back to IMAGE_RANGE. */
enum image_phase {
	IMAGE_IDLE,    /* no image is being made */
	IMAGE_RANGE,   /* a progress line is to say how many instruments there are */
	IMAGE_PASS,    /* open slots are copied */
	IMAGE_JUDGE,   /* some copies failed; a line is to say how far the writer was by then */
	IMAGE_BEHIND,  /* the ring is read up to that line */
	IMAGE_GIVE_UP, /* slots that failed every copy are reported */
	IMAGE_SETTLED, /* every slot is settled; the position is to reach the end of a message */
};

struct image {
	enum image_phase phase;
	uint32_t capacity;
	bool marks_messages;
	uint64_t base;      /* values up to it come from slots, all others from the ring */
	uint32_t range;     /* instruments that may have a value up to base */
	uint32_t at;        /* slots that are given up are reported from here on */
	bool pass_due;      /* the pass has not begun */
	uint32_t open;      /* slots of the range that are not settled */
	uint64_t largest;   /* sequence of all copies since base was fixed */
	uint64_t latest_ns; /* time of all copies since base was fixed */
	uint64_t ends_at;   /* the last sequence that is known to end a message */
	unsigned int tries; /* passes that proved the open slots unreadable */
	unsigned int laps;  /* gaps since the first base of this image */
	uint64_t judged_head, judged_reserved; /* of the line after the pass */
	uint64_t proof_at;    /* `reserved` of the line after the pass that waits */
	bool proof_due;       /* a pass waits for its proof (I7) */
	uint64_t pass_ns;     /* when the last pass began */
	bool line_asked;      /* a line was requested in this phase (I4) */
	bool unread;          /* a READ of the last pass failed (I7) */
	bool image_first;     /* in polls for a single record */
	uint64_t *seen;       /* by instrument: the last delivered record that changes the value */
	uint64_t *delivered;  /* a bit each: some record of it was delivered */
	uint64_t *open_slots; /* a bit each */
};

/* Whether the subscription may ever make an image. */
static inline bool image_is_wanted(const struct tb_subscription_options *options)
{
	return options->from == TB_FROM_IMAGE || options->gap == TB_GAP_IMAGE;
}

static inline bool image_is_busy(const struct image *image)
{
	return image && image->phase != IMAGE_IDLE;
}

/* For a topic of this shape. NULL: no memory. */
struct image *image_new(const struct region_shape *);
void image_free(struct image *);

/* Fixes base: a new image begins, or the image that is being made begins again. Returns true if it
 * began again IMAGE_LAPS times. */
bool image_begin(struct image *, uint64_t base);
/* Records may have come that were not noted (I5). Before the next image begins. */
void image_forget(struct image *);
/* A line was requested now. */
void image_line_asked(struct image *);
/* Whether a line is needed that was not requested yet. */
bool image_wants_line(const struct image *);
/* The line that was requested was not valid, or its READ failed. */
void image_line_invalid(struct image *);
/* A valid line arrived: any line shows where messages end; a line that was requested in this phase
 * moves the image on. */
void image_line(struct image *, const struct progress *);
/* A record, hole or quality of the ring at its place, before its handler is called. */
void image_passed(struct image *, uint64_t sequence, uint32_t instrument, uint8_t kind,
		  uint8_t flags);
/* The copy of a slot is valid: settles it. Returns whether its value is to be delivered. */
bool image_takes(struct image *, const struct record *copy);
void image_settle(struct image *, uint32_t instrument);
/* Settles the slots of instruments that are not chosen: a bit each. */
void image_leave(struct image *, const uint64_t *left);
bool image_is_open(const struct image *, uint32_t instrument);
/* The first open slot from `from` on; range if there is none. */
uint32_t image_next_open(const struct image *, uint32_t from);
/* The pass has looked at all its copies. unread: a READ of it failed, so slots were not copied. */
void image_pass_ends(struct image *, bool unread);
/* Judges the failed copies once the ring was read up to the line (I7). */
void image_judge(struct image *, uint64_t position, uint64_t now_ns);
/* Whether the image is complete at this position. */
bool image_may_complete(const struct image *, uint64_t position);
/* The same of a merge, in which all records up to time_ns and no later record were delivered. */
bool image_allows_cut(const struct image *, uint64_t time_ns);
/* It is over. */
void image_completes(struct image *);
/* Its READs were lost with the connection. */
void image_interrupted(struct image *);

#endif
