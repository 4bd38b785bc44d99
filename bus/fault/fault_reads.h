/* SPDX-License-Identifier: Apache-2.0 */
/* READs with faults: torn, failed, late; of the welcome's region also frozen.
 *
 * F1  Every READ that the decorator took completes once. After the connection is lost or broken,
 *     it completes with -ECONNRESET, unless it completed before.
 * F2  An adapter may land the same copy: each of its bytes was in the region after the READ was
 *     posted. Only a freeze lands older bytes. */
#ifndef TICKBUS_BUS_FAULT_READS_H
#define TICKBUS_BUS_FAULT_READS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bus/fabric.h"
#include "bus/fault/fault_page.h"

#define FAULT_DEPTH 64

struct fault_link;

struct fault_remote {
	struct remote base;
	struct remote *below;
	struct fault_page page; /* of the welcome's region; others do not freeze */
};

/* Memory that READs land in. The first copy of a torn READ lands at the same place of its twin. */
struct fault_landing {
	struct fault_landing *next;
	uint8_t *memory;
	size_t bytes;
	size_t twin; /* offset of the twin; 0: there is none, no READ is torn */
};

enum fault_step {
	FAULT_FREE,
	FAULT_READING,  /* posted below */
	FAULT_BETWEEN,  /* the first of two copies landed: waits to be posted again */
	FAULT_REPEATED, /* posted below for the second time */
	FAULT_DONE,     /* completes when it is due */
};

struct fault_read {
	enum fault_step step;
	struct fabric_read read; /* of the owner */
	uint8_t *twin;           /* where the first copy of a torn READ lands; NULL: not torn */
	bool late, fails;
	uint64_t due_ns; /* 0: at once */
	int status;
};

struct fault_reads {
	struct fault_read read[FAULT_DEPTH];
	unsigned int count; /* that are not free */
	struct fault_landing *landings;
};

int fault_remote_open(struct link *, struct fabric_key, uint64_t bytes, struct remote **);
bool fault_remote_keep(struct link *, struct remote *);
void fault_remote_close(struct remote *);
const void *fault_view(const struct remote *);
void *fault_landing(struct link *, size_t bytes);
void fault_landing_free(struct link *, void *, size_t bytes);
unsigned int fault_depth(const struct link *);
int fault_read(struct link *, const struct fabric_read *, unsigned int count);
int fault_reap(struct link *, struct fabric_completion *, unsigned int max);

/* Whether a READ waits in the decorator, and not below. */
bool fault_reads_held(const struct fault_link *);

/* The link below was broken: its READs are reaped, and what is left completes with an error. */
void fault_reads_break(struct fault_link *);

#endif
