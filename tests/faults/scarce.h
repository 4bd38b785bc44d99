/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that runs out when it is told to: malloc and mmap in the place of libc's, so that those of
 * the libraries below us are among them, and a count of all that the process holds. */
#ifndef TICKBUS_TESTS_SCARCE_H
#define TICKBUS_TESTS_SCARCE_H

#include <stdbool.h>

/* Whose allocations fail: those of the thread that calls this, or of all others (the library's). */
void scarce_mine(void);
void scarce_others(void);
/* Meanwhile the calling thread has what it wants. */
void scarce_spare(bool);

/* After so many more of them one fails, or all from there on. */
void scarce_from(long number, bool all_after);
/* How many have failed since. */
long scarce_failures(void);
/* There is enough again. */
void scarce_no_more(void);

struct held {
	long allocations;
	int descriptors, mappings;
};

struct held held_now(void);
/* Ends the program if there is more than there was, for some seconds: the publisher's thread frees
 * a session when it learns that its subscriber went. What was on its way when `before` was counted
 * is taken off it. */
void held_as_before(struct held *before, const char *what, const char *how, long number);

/* Ends the program with these words and tb_error()'s. */
__attribute__((noreturn)) void wrong(const char *what, const char *how, long number);

#endif
