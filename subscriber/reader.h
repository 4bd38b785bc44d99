/* SPDX-License-Identifier: Apache-2.0 */
/* The position in a topic: where it begins, and what a slot without a valid record means. */
#ifndef TICKBUS_SUBSCRIBER_READER_H
#define TICKBUS_SUBSCRIBER_READER_H

#include "bus/progress.h"
#include "subscriber/state.h"

/* What a progress line says of slot `next`. */
enum reader_verdict {
	READER_STAYS,  /* the position does not move: read the slot, now or later */
	READER_LAPPED, /* the record was overwritten: call reader_skip() */
	READER_ENDED,  /* the topic ended and was read to its end: call source_end() */
};

#define TRIES_MAX 8 /* failed copies of a slot before its record is reported as corrupt */

/* Takes the line's head and judges slot `next`. Sets `look` if the line has to be read again.
 * Calls no handler; the caller acts. */
enum reader_verdict reader_look(struct tb_source *, const struct progress *);
/* Reports the line's quality if all records up to its head were read, or that of an earlier line
 * whose head was reached. After reader_look(). */
void reader_quality(struct tb_source *, const struct progress *);
/* Moves past the records that the line shows as overwritten, and reports the gap. If records are
 * held for a batch, it waits for their delivery (C-I1), as reader_failed() does. */
void reader_skip(struct tb_source *, const struct progress *);
/* Counts a failed copy of slot `next` while the window did not move. After TRIES_MAX copies it
 * reports the record as corrupt, moves past it and returns true. */
bool reader_failed(struct tb_source *, const struct progress *);
/* Decides where reading begins. Reports that the topic appeared, and what was lost before. */
void reader_start(struct tb_source *, const struct progress *);
/* Notes what a valid line says for chosen instruments and watch lists: after reader_look() and
 * reader_start() that was done. */
void reader_note(struct tb_source *, const struct progress *);
/* Raises the known head. */
void reader_head(struct tb_source *, uint64_t head);
/* Counts reads of the progress line in a row that found it invalid. Returns valid. */
bool reader_line(struct tb_source *, bool valid);

#endif
