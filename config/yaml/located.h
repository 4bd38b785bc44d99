/* SPDX-License-Identifier: Apache-2.0 */
/* YAML as settings need it: a tree of mappings, sequences and scalars, each with its place, and
 * errors that name it.
 *
 *   located_load      a file's tree, or NULL with errors
 *   located_keys      is it a mapping with no keys but these?
 *   located_need      a key's value, with an error where there is none; located_get without
 *   located_integer   and the like: check a value, convert it
 *   located_error     what else is wrong with a node
 *
 * An error is a line "file:line:column: path.of.key: found this, expected that"; all of a file come
 * in one run. What leaves no tree to go on with ends it, and has a place but no path: a syntax
 * error, a second document, a key that is no word, a bound. Getters take NULL nodes (nothing there)
 * and return false.
 *
 * Anchors, aliases, tags, merge keys, several documents, duplicate keys and keys that are no plain
 * scalars are errors. Scalars are valid UTF-8 without control characters but tab and newline. There
 * is no null: `~` and `null` are texts. Columns count characters. */
#ifndef TICKBUS_CONFIG_YAML_LOCATED_H
#define TICKBUS_CONFIG_YAML_LOCATED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define YAML_BYTES_MAX  (1u << 20)
#define YAML_DEPTH_MAX  32
#define YAML_NODES_MAX  100000
#define YAML_KEYS_MAX   1000 /* in one mapping; each is compared with all before it */
#define YAML_ERRORS_MAX 100  /* further ones are counted only */

enum located_kind { YAML_SCALAR, YAML_SEQUENCE, YAML_MAPPING };

struct located_node {
	enum located_kind kind;
	uint32_t line, column; /* from 1 */
	const char *text;      /* SCALAR: NUL-terminated; never contains a NUL */
	bool quoted;           /* SCALAR: in quotes or a block: a string whatever it looks like */
	bool reported;         /* SCALAR: an error was told about it, further ones are not */
	const char *key;       /* of a mapping's child */
	uint32_t key_line, key_column;
	uint32_t index; /* of a sequence's child, from 0 */
	uint32_t count; /* children */
	const struct located_document *document;
	const struct located_node *parent;
	struct located_node *first, *last, *next; /* children; the next one of the same parent */
};

struct located_document;

struct located_errors {
	char *text; /* lines; NULL while there are none */
	size_t used, size;
	unsigned int count;
	bool no_memory; /* one of them, at least, is that */
};

/* Reads a file, or text with a name for it in errors. NULL with errors where there is no tree; a
 * tree may come with errors too. */
struct located_document *located_load(struct located_errors *, const char *path);
struct located_document *located_parse(struct located_errors *, const char *text, size_t length,
				       const char *origin);
/* Takes NULL. Frees all nodes. */
void located_free(struct located_document *);
/* The root; NULL for NULL. An empty document is an error already. */
const struct located_node *located_root(const struct located_document *);
/* The file's name, as it was given. */
const char *located_origin(const struct located_document *);

void located_errors_free(struct located_errors *);
/* Adds an error at a node, where it has none told: "file:line:column: path: words". */
void located_error(struct located_errors *, const struct located_node *, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
/* Adds a whole line that is not about a node. */
void located_error_line(struct located_errors *, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
/* Adds "WHAT: no memory". */
void located_no_memory(struct located_errors *, const char *what);
/* What a node is, in words for "found ...": `"text"` (cut to the buffer), `a mapping`, `a
 * sequence`, `nothing`. */
const char *located_found(const struct located_node *, char *buffer, size_t size);

/* The value of a key, or NULL. */
const struct located_node *located_get(const struct located_node *mapping, const char *key);
/* The same, and an error at the mapping where it is missing. */
const struct located_node *located_need(struct located_errors *, const struct located_node *mapping,
					const char *key, const char *expected);

/* Whether the node is a mapping with none but these keys (ended by NULL); an error for each other
 * key, which names the nearest one that is known. */
bool located_keys(struct located_errors *, const struct located_node *, const char *const *known);
bool located_is_sequence(struct located_errors *, const struct located_node *,
			 const char *expected);

/* Each checks and converts; false with an error (none for NULL), *value is then left as it is. */
bool located_integer(struct located_errors *, const struct located_node *, int64_t low,
		     int64_t high, int64_t *value);
/* A power of two; low is at least 1. */
bool located_power(struct located_errors *, const struct located_node *, int64_t low, int64_t high,
		   int64_t *value);
bool located_boolean(struct located_errors *, const struct located_node *, bool *value);
bool located_string(struct located_errors *, const struct located_node *, size_t min_bytes,
		    size_t max_bytes, const char **value);
/* One of the words (ended by NULL): its index. */
bool located_word(struct located_errors *, const struct located_node *, const char *const *words,
		  unsigned int *value);

#endif
