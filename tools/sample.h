/* SPDX-License-Identifier: Apache-2.0 */
/* One look at all counters of a bus, and what changed since the look before. */
#ifndef TICKBUS_TOOLS_SAMPLE_H
#define TICKBUS_TOOLS_SAMPLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sample_row {
	const char *scope; /* a constant */
	char *name, *counter, *unit;
	uint64_t value;
	bool counts; /* the value is a counter; else it is a property, which has no rate */
};

struct sample {
	struct sample_row *rows;
	size_t count, room;
	size_t searched;   /* where the next search for a row begins */
	uint64_t bus_id;   /* of the publisher that answered */
	uint64_t taken_ns; /* by the monotonic clock */
	uint64_t time_ns;  /* since 1970 UTC */
	int error;         /* errno value */
};

enum sample_note {
	SAMPLE_RATE,    /* the rate is known */
	SAMPLE_NONE,    /* a property */
	SAMPLE_FIRST,   /* the sample before lacks this counter */
	SAMPLE_RESTART, /* another publisher answered the sample before */
	SAMPLE_FELL,    /* the value is lower than before */
};

/* Adds a row. Copies the texts, but not the scope. */
void sample_add(struct sample *sample, const char *scope, const char *name, const char *counter,
		uint64_t value, const char *unit, bool counts);

/* Whether a row has a rate since the sample before (zeroed: there is none), in changes per second.
 * A rate is never negative. Rows that both samples have are found at once if they are compared in
 * their order. */
enum sample_note sample_compare(struct sample *before, const struct sample *now, size_t row,
				double *rate);

/* The word that rows show for it: "" for a rate and for a property. */
const char *sample_note_word(enum sample_note note);

/* Frees the rows and zeroes the sample. */
void sample_free(struct sample *sample);

#endif
