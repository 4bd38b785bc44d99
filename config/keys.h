/* SPDX-License-Identifier: Apache-2.0 */
/* A mapping of the settings as a table of its keys. The table drives reading, checks, defaults and
 * printing. A default is written as in the file, and read the same way. */
#ifndef TICKBUS_CONFIG_KEYS_H
#define TICKBUS_CONFIG_KEYS_H

#include "config/forms.h"

enum key_kind {
	KEY_INTEGER,   /* 32 or 64 bits; signed if low is negative */
	KEY_POWER,     /* the same, a power of two */
	KEY_BOOLEAN,   /* bool */
	KEY_WORD,      /* an enum from 1 */
	KEY_TEXT,      /* checked by its form */
	KEY_LIST,      /* struct settings_list of low to high different texts */
	KEY_MAPPING,   /* a table of keys, in the structure at offset */
	KEY_ELSEWHERE, /* a known key that other code reads */
};

struct key {
	const char *name; /* NULL ends a table */
	enum key_kind kind;
	bool optional;            /* may be missing: the field is then 0 */
	const char *default_text; /* the default (of a list: its only text). NULL: required, or
				     optional */
	size_t offset, bytes;
	int64_t low, high;
	const char *const *words; /* WORD, ended by NULL */
	const struct form *form;  /* TEXT, LIST */
	const struct key *keys;   /* MAPPING */
};

/* True if the node is a mapping. Adds an error for each key that is in no table; the tables are
 * ended by NULL. Keys of the other tables are no unknown keys: the caller reports them. */
bool keys_known_besides(struct reading *, const struct located_node *,
			const struct key *const *tables, const struct key *const *others);
bool keys_known(struct reading *, const struct located_node *, const struct key *const *tables);

/* Adds an error for each key that is missing in the tables and is in another, whose type is at the
 * same place in `types`. Both lists of tables are ended by NULL. */
void keys_foreign(struct reading *, const struct located_node *, const struct key *const *tables,
		  const struct key *const *others, const char *const *types, const char *own);

/* Reads a table's keys from a mapping into a zeroed structure. */
void keys_read(struct reading *, const struct located_node *mapping, const struct key *table,
	       void *structure);

/* Reads the keys that the mapping has, each by the first table that has it. */
void keys_read_given(struct reading *, const struct located_node *mapping,
		     const struct key *const *tables, void *structure);

/* Prints a table's keys, a line each: the first line begins with `first`, the others with `rest`.
 */
void keys_print(FILE *, const struct key *table, const void *structure, const char *first,
		const char *rest);

/* Prints a text in quotes. */
void keys_print_text(FILE *, const char *text);

#endif
