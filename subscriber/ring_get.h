/* SPDX-License-Identifier: Apache-2.0 */
/* Records of the ring, copied for calls that wait for them, whatever the position is. */
#ifndef TICKBUS_SUBSCRIBER_RING_GET_H
#define TICKBUS_SUBSCRIBER_RING_GET_H

#include "bus/progress.h"
#include "bus/record.h"
#include "subscriber/find.h"
#include "subscriber/state.h"

#define RING_GET_COPIES 8 /* of a record that is not whole, before it counts as corrupt */

enum ring_get {
	RING_GET_OVERWRITTEN, /* a verified line shows it, and so all records before it */
	RING_GET_WHOLE,
	RING_GET_CORRUPT, /* still held, but never whole */
};

/* Copies a record that a line counted, until it is whole, at most `copies` times. Returns an enum
 * ring_get, or -errno as get_reads() and get_line(). After get_open(), unless there is a view. */
int ring_get(struct tb_source *, uint64_t sequence, int copies, struct record *copy);
/* For records that were READ together: the oldest that counts, by a line that is READ now if the
 * subscription is strict. Else 0. Returns 0, or -errno as get_line(). */
int ring_get_proof(struct tb_source *, uint64_t *oldest);
/* ring_get() for a record that was READ already. */
int ring_get_landed(struct tb_source *, uint64_t sequence, const char *landed, uint64_t oldest,
		    struct record *copy);
/* Where the slot of a record lies in the topic's memory. */
uint64_t ring_get_offset(const struct mapping *, uint64_t sequence);
/* Copies what the bisection asks for, to its end. 0 or -errno as ring_get(). */
int ring_get_find(struct tb_source *, struct find *);

#endif
