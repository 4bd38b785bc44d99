/* SPDX-License-Identifier: Apache-2.0 */
/* The options of tickbus cat that print records of the past, and end: --at and --last. */
#ifndef TICKBUS_TOOLS_PAST_H
#define TICKBUS_TOOLS_PAST_H

#include <stdbool.h>
#include <stdint.h>

#include "tools/command.h"
#include "tools/rows.h"
#include "tools/wanted.h"

struct past {
	const char *at;   /* the time, as it was given; NULL: no --at */
	uint64_t time_ns; /* since 1970 UTC, or since midnight of a day that is not known yet */
	bool of_day;      /* since midnight */
	uint64_t back;    /* --back */
	bool has_back;
	uint64_t last; /* --last; 0: no --last */
};

/* Rows of the command's table of options. */
#define PAST_OPTIONS                                                                               \
	{ "at", "TIME", "print the last record up to this time, and exit", 'A' },                  \
		{ "back", "N", "with --at: and N records before it (default 0)", 'B' },            \
	{                                                                                          \
		"last", "N", "print the last N records, and exit", 'L'                             \
	}

/* Takes an option. Returns the exit status, or PAST_NOT_MINE. */
#define PAST_NOT_MINE (-1)
int past_take(struct past *past, const struct command_call *call, int letter);

/* Whether one of the options was given. */
bool past_is_asked(const struct past *past);

/* Refuses options that contradict each other. `other` names an option of another file that
 * contradicts --at and --last, or is NULL. Returns the exit status. */
int past_check(const struct past *past, const struct command_call *call, const char *other);

/* How to reach the topic, and which of its records to print. */
struct past_topic {
	struct tb_subscriber_options how;
	const char *name;
	const struct tb_schema *schema;  /* NULL: any */
	const struct wanted_list *names; /* NULL: all instruments */
	bool strict;
};

/* Prints the records, the oldest first. Returns the exit status. */
int past_print(const struct past *past, const struct command *command,
	       const struct past_topic *topic, struct rows *rows);

#endif
