/* SPDX-License-Identifier: Apache-2.0 */
/* The options of tickbus cat that choose which records are printed, and in which order: names,
 * a watch list, conflation, a merge. */
#ifndef TICKBUS_TOOLS_CHOOSE_H
#define TICKBUS_TOOLS_CHOOSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tickbus/subscriber.h"
#include "tools/command.h"
#include "tools/wanted.h"

struct choose {
	struct wanted names;
	bool required, watch, merge;
	uint32_t look_us, conflate_us;
	uint8_t exempt_kinds[256];
	size_t exempt_kind_count;
	const char *exempt_topics[256];
	size_t exempt_topic_count;
};

/* Rows of the command's table of options. */
#define CHOOSE_OPTIONS                                                                             \
	{ "names", "NAME,...|@FILE",                                                               \
	  "only these instruments: names, patterns, or lines of a file", 'n' },                    \
		{ "names-required", NULL, "refuse topics that lack an instrument of --names",      \
		  'N' },                                                                           \
		{ "watch", "INTERVAL|poll", "newest value of each name when it changed", 'W' },    \
		{ "conflate", "INTERVAL|poll", "newest record of each instrument per interval",    \
		  'C' },                                                                           \
		{ "exempt", "KIND,...", "with --conflate: print all records of these kinds",       \
		  'e' },                                                                           \
		{ "exempt-topic", "PATTERN", "with --conflate: print all records of these topics", \
		  'E' },                                                                           \
	{                                                                                          \
		"merge", NULL, "print all topics in the order of their group", 'M'                 \
	}

/* Takes an option. Returns the exit status, or CHOOSE_NOT_MINE. */
#define CHOOSE_NOT_MINE (-1)
int choose_take(struct choose *choose, const struct command_call *call, int letter);

/* Adds the options to those of the subscription, and checks that they go together. Returns the
 * exit status. `choose` must live as long as the options. */
int choose_fill(struct choose *choose, const struct command_call *call,
		struct tb_subscription_options *what);

/* True if the options leave records out, so that the accounts are of interest. */
bool choose_leaves_out(const struct choose *choose);

/* Reads the files of --names again, and adds and removes names. After an error, which it prints,
 * the names stay as they were. */
void choose_again(struct choose *choose, const struct command_call *call,
		  struct tb_subscription *subscription);

void choose_free(struct choose *choose);

#endif
