/* SPDX-License-Identifier: Apache-2.0 */
/* Two fabrics in memory, for a publisher and its subscribers in one thread of one process:
 *
 *   sim:NAME       a network. A READ is copied in pieces, by words or bytes, in any order, while
 *                  the writer goes on. READs complete in any order, and may fail. Notices may be
 *                  lost, doubled, reordered and forged.
 *   simview:NAME   memory that subscribers read in place.
 *
 * Nothing happens by itself: the calls of the library and sim_fabric_work() move everything. Equal
 * seeds and equal calls give equal results. */
#ifndef TICKBUS_TESTS_SIM_FABRIC_H
#define TICKBUS_TESTS_SIM_FABRIC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SIM_NOTICE_BYTES 512 /* of the longest notice */

/* What goes wrong: each a share in 1,000. */
struct sim_faults {
	unsigned int fail;    /* READs that fail */
	unsigned int drop;    /* notices that are lost, for each link */
	unsigned int dup;     /* notices that arrive twice */
	unsigned int reorder; /* notices that overtake the notice before */
	unsigned int slow;    /* pieces of READs that are not copied when work is done */
};
extern struct sim_faults sim_faults;

/* What happened since sim_fabric_begin(). */
struct sim_seen {
	uint64_t reads, failed, pieces;
	uint64_t notices, dropped, doubled, reordered, forged;
	uint64_t broken; /* connections that were cut */
	uint64_t gone;   /* READs of memory that was withdrawn for too long; each ended its link */
};
extern struct sim_seen sim_seen;

/* The draws of the fabric from here on. A step of a history sets them. */
extern uint64_t sim_draws;

/* Called while a subscriber connects or waits for answers inside a call: takes the publisher's
 * turns. NULL: nothing. */
extern void (*sim_meanwhile)(void);

/* Called after each piece of a READ that was copied; NULL: nothing. */
extern void (*sim_piece)(void);

/* Adds both fabrics. */
void sim_fabric_add(void);
/* Before a history: no faults, nothing seen. */
void sim_fabric_begin(void);
/* Copies at most this many pieces of outstanding READs, of links that are chosen by chance. */
void sim_fabric_work(unsigned int pieces);
/* Cuts the connection that was opened as the n-th of all that exist. */
void sim_fabric_cut(unsigned int n);
/* A stranger or a member sends a datagram to every link. */
void sim_fabric_forge(const void *datagram, size_t bytes);
/* The last notices that the publisher sent, lost or not: the n-th before the last. NULL: fewer were
 * sent. */
const void *sim_fabric_overheard(unsigned int n, size_t *bytes);
/* Whether everything is closed: a history leaves nothing behind. */
bool sim_fabric_is_empty(void);

#endif
