/* SPDX-License-Identifier: Apache-2.0 */
/* One writer at full speed and readers of different manners on their own threads, all held against
 * the truth. Linked with files built for steps (steps.h), each of them is also stalled on purpose,
 * anywhere inside a copy or a store; linked with the library as it is, none is. */
#ifndef TICKBUS_TESTS_STRESS_H
#define TICKBUS_TESTS_STRESS_H

#include <pthread.h>

#include "tests/stress/tally.h"

enum manner {
	STEADY,   /* polls without pause */
	LAGGING,  /* lets itself be lapped */
	SLEEPING, /* waits to be woken */
	VALUES,   /* reads the last-value cache */
	READERS,
	WRITER = READERS
};

/* What there has to have been while records were written; the writer goes on until then. */
#define FRESH_MIN     100 /* last values, one newer than the other */
#define DELIVERED_MIN 500 /* records, to each of the others */
#define REFUSED_MIN   10  /* copies, by all of them; strict ones by READ are not even looked at */

struct variant {
	const char *name;
	const char *scheme;
	uint32_t payload_max, slots, flags;
	uint32_t share;     /* of all records, in thousandths */
	uint32_t subscribe; /* flags of the subscriptions */
};

struct party {
	struct stress *stress;
	enum manner manner;
	pthread_t thread;
	uint64_t random;
	struct tally tally;
	uint64_t values; /* accepted copies of last values */
	uint64_t fresh;  /* of them, while they were written, newer than the one before */
	uint64_t stalls;
	_Alignas(64) _Atomic uint64_t looks; /* how often it looked */
	_Atomic uint64_t refused; /* copies that were caught: torn, stale or being written */
	_Atomic uint64_t next;    /* of its tally */
	_Atomic uint64_t awaits;  /* so many written; 0: none */
	_Atomic bool content;     /* it had enough while records were written */
};

struct stress {
	const struct variant *variant;
	struct tb_publisher *publisher;
	struct tb_topic *topic;
	struct truth truth;
	const char *address;
	uint64_t records, until_ms; /* whichever comes first; 0: not bounded by it */
	_Alignas(64) _Atomic uint64_t written;
	_Alignas(64) _Atomic bool over;     /* nothing more is written */
	_Atomic uint32_t waiting, finished; /* readers */
	_Atomic uint32_t content;           /* readers, and those that gave up */
	_Atomic bool late;                  /* what is written is written for those that are not */
	pthread_barrier_t joined;
	struct party party[READERS + 1];
};

extern _Thread_local struct party *stress_me;

uint64_t stress_draw(struct party *);
uint64_t stress_now_ms(void);

/* Waits until `written` has come to n, or nothing more comes. */
void stress_await(struct party *, uint64_t n);

/* stress_reader.c: a reader's thread. */
void *stress_read(void *party);

/* stress_stall.c: from now on the calling thread is stalled now and then; not any more. */
void stress_stall(struct party *);
void stress_stall_no_more(void);

#endif
