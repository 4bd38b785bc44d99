/* SPDX-License-Identifier: Apache-2.0 */
/* A mapping of the settings as a table of its keys: from it they are read, checked, filled in where
 * they are missing, and printed. A default is written as in the file and read like it. */
#ifndef TICKBUS_CONFIG_KEYS_H
#define TICKBUS_CONFIG_KEYS_H

#include "config/forms.h"

enum key_kind {
	KEY_INTEGER,   /* 32 or 64 bits; signed where low is */
	KEY_POWER,     /* the same, a power of two */
	KEY_BOOLEAN,   /* bool */
	KEY_WORD,      /* an enum from 1 */
	KEY_TEXT,      /* as its form says */
	KEY_LIST,      /* struct settings_list of low to high texts, none twice */
	KEY_MAPPING,   /* keys of its own, in the structure at offset */
	KEY_ELSEWHERE, /* known, but read by somebody else */
};

struct key {
	const char *name; /* NULL ends a table */
	enum key_kind kind;
	bool optional;     /* may be missing without a default: the field is then 0 */
	const char *usual; /* the default; of a list, its only text. NULL: needed, or optional */
	size_t offset, bytes;
	int64_t low, high;
	const char *const *words; /* WORD, ended by NULL */
	const struct form *form;  /* TEXT, LIST */
	const struct key *keys;   /* MAPPING */
};

/* Whether it is a mapping; an error for each key that is in none of the tables (ended by NULL). */
bool keys_known(struct reading *, const struct located_node *, const struct key *const *tables);

/* Reads a table's keys out of a mapping into a structure that is all 0. */
void keys_read(struct reading *, const struct located_node *mapping, const struct key *table,
	       void *structure);

/* Prints a table's keys, a line each: the first line begins with `first`, others with `rest`. */
void keys_print(FILE *, const struct key *table, const void *structure, const char *first,
		const char *rest);

/* Prints a text in quotes. */
void keys_print_text(FILE *, const char *text);

#endif
