/* SPDX-License-Identifier: Apache-2.0 */
/* A fake device and connection manager for a subscriber over the whole verbs fabric. Its messages
 * go to a publisher over shared memory. A region's address is an address of this process. A READ
 * copies from there when completions are polled. The device counts what it is asked to do, and
 * checks the arguments. It may refuse a single READ. */
#ifndef TICKBUS_TESTS_READING_DEVICE_H
#define TICKBUS_TESTS_READING_DEVICE_H

#include <stdint.h>

#define READING_PLACE "10.9.0.1:7471" /* where the subscriber connects to */

extern struct reading_device {
	int ids, queue_pairs, registered; /* that were made and not destroyed */
	unsigned int connections;
	unsigned int doorbells;    /* calls that post READs */
	unsigned int reads;        /* posted, the refused READ included */
	unsigned int completions;  /* that these READs ask for */
	unsigned int polls;        /* of the completion queue */
	uint64_t bytes;            /* of the READs that were posted */
	unsigned int system_calls; /* of the thread that counts, without those of the device */
	unsigned int lands; /* READs that land when completions are polled; 0: a single READ */
	unsigned int refused_read; /* counted from 1; 0: no READ is refused */
	unsigned int refusals;
} reading;

void reading_device_open(void);
void reading_device_close(void);
/* Counts from 0 on. The thread that calls is the thread that reads. */
void reading_count(void);
/* When the subscriber is closed, all objects are destroyed. */
void reading_expect_nothing_left(void);

#endif
