/* SPDX-License-Identifier: Apache-2.0 */
/* The peers of a listener, for every fabric: their list, their removal, and the log lines of peers
 * that were refused or dropped.
 *
 * P1  A peer that callbacks may still name is freed only after the poll that called them. Until
 *     then it is in the list of dead peers.
 * P2  A poll accepts, probes, refuses for silence, and removes at most BOUND_PEERS_OF_A_TURN peers
 *     each, since the owner's lock is held meanwhile. The rest keeps the listener's descriptor
 *     readable. */
#ifndef TICKBUS_BUS_PEERS_H
#define TICKBUS_BUS_PEERS_H

#include <stdbool.h>
#include <stddef.h>

#include "bus/fabric.h"

#define PEER_TEXT 64

/* A fabric's peer begins with this. */
struct peers_entry {
	struct peer base;
	struct peers *peers;
	struct peers_entry *next, *before;
	bool up;              /* its hello was accepted */
	bool dead;            /* its connection is ended; freed when the poll is over (P1) */
	char text[PEER_TEXT]; /* names it in the log: "pid 12 of user 1000" */
};

struct peers {
	struct listener *listener;
	struct listener_calls calls;
	void *user;
	void (*end)(struct peers_entry *); /* ends its connection; frees nothing of the entry */
	struct peers_entry *first, *dead;
	unsigned int count, max;
};

/* Adds a zeroed entry from calloc(), which peers frees. */
void peers_add(struct peers *, struct peers_entry *);
/* Ends its connection and calls nothing. */
void peers_remove(struct peers_entry *);
/* The connection is lost: removes the peer, and calls `gone` when its hello was accepted. Does
 * nothing with a dead peer. */
void peers_lost(struct peers_entry *, const char *why);
/* Frees the dead peers: the last act of a poll (P1). */
void peers_free_dead(struct peers *);
/* Removes and frees all, without a call. */
void peers_close(struct peers *);

void peers_log(struct peers *, enum fabric_log, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
/* One line for each connection that was refused or dropped. */
void peers_log_refused(struct peers *, const char *peer, const char *why);
void peers_log_dropped(struct peers *, const char *peer, const char *why);

/* The operations peer_text and drop. */
void peers_text(const struct peer *, char *text, size_t bytes);
void peers_drop(struct peer *, const char *why);

#endif
