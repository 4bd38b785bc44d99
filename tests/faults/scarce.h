/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that runs out on request, and a count of what the process holds. Replaces libc's malloc
 * and mmap, also for the libraries below. */
#ifndef TICKBUS_TESTS_SCARCE_H
#define TICKBUS_TESTS_SCARCE_H

#include <stdbool.h>

/* Chooses the allocations that fail: the calling thread's, or those of all other threads. */
void scarce_mine(void);
void scarce_others(void);
/* While true, the calling thread's allocations work. */
void scarce_spare(bool);

/* After `number` more allocations an allocation fails, or all that follow fail. */
void scarce_from(long number, bool all_after);
/* How many have failed since scarce_from(). */
long scarce_failures(void);
/* Allocations work again. */
void scarce_no_more(void);

struct held {
	long allocations;
	int descriptors, mappings;
};

struct held held_now(void);
/* Ends the program if the process still holds more than before after some seconds. The publisher's
 * thread frees a session some time after its subscriber closes. Updates `before`. */
void held_as_before(struct held *before, const char *what, const char *how, long number);

/* Ends the program with this message and tb_error(). */
__attribute__((noreturn)) void wrong(const char *what, const char *how, long number);

#endif
