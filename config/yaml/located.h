/* SPDX-License-Identifier: Apache-2.0 */
/* YAML for settings: a tree of mappings, sequences and scalars, each with its position, and errors
 * that name the position.
 *
 *   located_load      reads a file into a tree, or NULL with errors
 *   located_keys      checks that a node is a mapping with known keys
 *   located_need      finds a key's value, with an error if it is missing; located_get without
 *   located_integer   and the others: check a value and convert it
 *   located_error     reports any other error of a node
 *
 * An error is a line "file:line:column: path.of.key: found this, expected that". One run reports
 * all errors of a file. An error that leaves no tree ends the run; it has a position but no path.
 * These are syntax errors, a second document, a key that is no scalar, and an exceeded bound.
 * Getters accept NULL nodes and return false.
 *
 * Anchors, aliases, tags, merge keys, several documents, duplicate keys and keys that are no plain
 * scalars are errors. Scalars are valid UTF-8 without control characters other than tab and
 * newline. There is no null: `~` and `null` are texts. Columns count characters. */
#ifndef TICKBUS_CONFIG_YAML_LOCATED_H
#define TICKBUS_CONFIG_YAML_LOCATED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define YAML_BYTES_MAX  (1u << 20)
#define YAML_DEPTH_MAX  32
#define YAML_NODES_MAX  100000
#define YAML_KEYS_MAX   1000 /* in one mapping; each is compared with all earlier keys */
#define YAML_ERRORS_MAX 100  /* further errors are only counted */

enum located_kind { YAML_SCALAR, YAML_SEQUENCE, YAML_MAPPING };

struct located_node {
	enum located_kind kind;
	uint32_t line, column; /* from 1 */
	const char *text;      /* SCALAR: NUL-terminated, without a NUL inside */
	bool quoted;           /* SCALAR: in quotes or a block, so always a string */
	bool reported;         /* SCALAR: has an error already; further errors are dropped */
	const char *key;       /* of a mapping's child */
	uint32_t key_line, key_column;
	uint32_t index; /* of a sequence's child, from 0 */
	uint32_t count; /* children */
	const struct located_document *document;
	const struct located_node *parent;
	struct located_node *first, *last, *next; /* children; the next child of the same parent */
};

struct located_document;

struct located_errors {
	char *text; /* lines; NULL while there are none */
	size_t used, size;
	unsigned int count;
	bool no_memory; /* at least one error is lack of memory */
};

/* Reads a file, or a text with a name for its errors. NULL with errors if there is no tree. A tree
 * may come with errors too. */
struct located_document *located_load(struct located_errors *, const char *path);
struct located_document *located_parse(struct located_errors *, const char *text, size_t length,
				       const char *origin);
/* Takes NULL. Frees all nodes. */
void located_free(struct located_document *);
/* The root; NULL for NULL. For an empty document there is an error already. */
const struct located_node *located_root(const struct located_document *);
/* The file's name, as given. */
const char *located_origin(const struct located_document *);

void located_errors_free(struct located_errors *);
/* Adds an error at a node that has no error yet: "file:line:column: path: message". */
void located_error(struct located_errors *, const struct located_node *, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
/* Adds a whole line that is not about a node. */
void located_error_line(struct located_errors *, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
/* Adds "WHAT: no memory". */
void located_no_memory(struct located_errors *, const char *what);
/* Describes a node after "found": `"text"` (cut to the buffer), `a mapping`, `a list`,
 * `nothing`. */
const char *located_found(const struct located_node *, char *buffer, size_t size);

/* What to do about a node that is no text because its quotes are missing; or "". */
const char *located_hint(const struct located_node *);
/* The edits between a wrong text and a known text, if they are similar; otherwise SIZE_MAX. Similar
 * are texts of 2 to 4 bytes with one edit, and longer texts with two. */
size_t located_distance(const char *text, const char *known);

/* The value of a key, or NULL. */
const struct located_node *located_get(const struct located_node *mapping, const char *key);
/* The same, with an error at the mapping if the key is missing. */
const struct located_node *located_need(struct located_errors *, const struct located_node *mapping,
					const char *key, const char *expected);

/* True if the node is a mapping. Adds an error for each key that is not in known (ended by NULL),
 * and suggests the most similar known key. */
bool located_keys(struct located_errors *, const struct located_node *, const char *const *known);
/* The same; keys of `others` are no errors, and are not suggested. */
bool located_keys_besides(struct located_errors *, const struct located_node *,
			  const char *const *known, const char *const *others);
bool located_is_sequence(struct located_errors *, const struct located_node *,
			 const char *expected);

/* Each checks and converts. On an error (NULL: no error) it returns false and leaves *value
 * unchanged. */
bool located_integer(struct located_errors *, const struct located_node *, int64_t low,
		     int64_t high, int64_t *value);
/* A power of two; low is at least 1. */
bool located_power(struct located_errors *, const struct located_node *, int64_t low, int64_t high,
		   int64_t *value);
bool located_boolean(struct located_errors *, const struct located_node *, bool *value);
bool located_string(struct located_errors *, const struct located_node *, size_t min_bytes,
		    size_t max_bytes, const char **value);
/* Writes the index of the value in the list of words, which NULL ends. */
bool located_word(struct located_errors *, const struct located_node *, const char *const *words,
		  unsigned int *value);

#endif
