/* SPDX-License-Identifier: Apache-2.0 */
/* The position in a topic: where it begins, and what a slot that could not be read means. */
#ifndef TICKBUS_SUBSCRIBER_READER_H
#define TICKBUS_SUBSCRIBER_READER_H

#include "bus/progress.h"
#include "subscriber/state.h"

/* What a progress line says of slot `next`. */
enum reader_verdict {
	READER_WAITS,  /* the record is not there yet, or it is and its copy failed */
	READER_LAPPED, /* it was overwritten: reader_skip */
	READER_ENDED,  /* all was read of a topic that ended: source_end */
};

#define TRIES_MAX 8 /* copies of one slot, with the window unmoved, before it is called corrupt */

/* Takes the head, and decides by a fresh progress line; calls no handler. */
enum reader_verdict reader_look(struct tb_source *, const struct progress *);
/* Moves past what the line says was overwritten, and delivers the gap. */
void reader_skip(struct tb_source *, const struct progress *);
/* A copy of slot `next` failed though the window did not move: true when it was given up. */
bool reader_failed(struct tb_source *);
void reader_start(struct tb_source *, const struct progress *);
void reader_head(struct tb_source *, uint64_t head);
/* Keeps count of looks at the progress line that found no valid one; valid. */
bool reader_line(struct tb_source *, bool valid);

#endif
