/* SPDX-License-Identifier: Apache-2.0 */
/* The instruments that --names chooses: lists on the command line, and files that are read again.
 */
#ifndef TICKBUS_TOOLS_WANTED_H
#define TICKBUS_TOOLS_WANTED_H

#include <stdbool.h>
#include <stddef.h>

#include "tools/command.h"

/* Names and patterns, sorted, each once. */
struct wanted_list {
	char **words;
	size_t count, room;
	bool again;         /* its files were read before */
	const char *sought; /* a word; NULL: no word is sought */
	const char *found;  /* the file that has it, or NULL */
	size_t line;        /* of the file */
};

struct wanted {
	const char **sources; /* values of --names, in their order */
	size_t source_count;
	bool files; /* a source is a file */
	struct wanted_list chosen;
};

/* Takes a value of --names: "NAME,..." or "@FILE". Returns the exit status; prints the error. */
int wanted_take(struct wanted *names, const struct command_call *call);

/* Reads all sources again. Only regular files can be. `fresh` gets the names. Returns 0, or -1
 * after it printed the error; then `fresh` is empty. */
int wanted_read(const struct wanted *names, const struct command_call *call,
		struct wanted_list *fresh);

/* The first file that has the word, and its line. NULL: no file has it any more. */
const char *wanted_place(const struct wanted *names, const struct command_call *call,
			 const char *word, size_t *line);

/* Fills `only` with the words of `list` that `other` lacks. `only` has room for all words of
 * `list`. Returns their number. */
size_t wanted_missing(const struct wanted_list *list, const struct wanted_list *other,
		      const char **only);

void wanted_list_free(struct wanted_list *list);
void wanted_free(struct wanted *names);

#endif
