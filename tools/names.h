/* SPDX-License-Identifier: Apache-2.0 */
/* The instruments that --names chooses: lists on the command line, and files that are read again.
 */
#ifndef TICKBUS_TOOLS_NAMES_H
#define TICKBUS_TOOLS_NAMES_H

#include <stdbool.h>
#include <stddef.h>

#include "tools/command.h"

/* Names and patterns, sorted, each once. */
struct names_list {
	char **words;
	size_t count, room;
};

struct names {
	const char **sources; /* values of --names, in their order */
	size_t source_count;
	bool files; /* a source is a file */
	struct names_list chosen;
};

/* Takes a value of --names: "NAME,..." or "@FILE". Returns the exit status; prints the error. */
int names_take(struct names *names, const struct command_call *call);

/* Reads all sources again. `fresh` gets the names. Returns 0, or -1 after it printed the error;
 * then `fresh` is empty. */
int names_read(const struct names *names, const struct command_call *call,
	       struct names_list *fresh);

/* Fills `only` with the words of `list` that `other` lacks. `only` has room for all words of
 * `list`. Returns their number. */
size_t names_missing(const struct names_list *list, const struct names_list *other,
		     const char **only);

void names_list_free(struct names_list *list);
void names_free(struct names *names);

#endif
