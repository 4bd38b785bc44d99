/* SPDX-License-Identifier: Apache-2.0 */
/* YAML as settings need it: a tree of mappings, sequences and scalars, each with its place, and
 * errors that name it.
 *
 *   struct yaml_errors errors = { 0 };
 *   struct yaml_document *document = yaml_load(&errors, "pubd.yaml");
 *   const struct yaml_node *bus = yaml_need(&errors, yaml_root(document), "bus", "a mapping");
 *   yaml_keys(&errors, bus, (const char *const[]){ "name", "stale_ms", NULL });
 *   ok = yaml_integer(&errors, yaml_get(bus, "stale_ms"), 20, 60000, &stale_ms);
 *   if (errors.count) fputs(errors.text, stderr);
 *
 * An error is a line "file:line:column: path.of.key: found this, expected that"; all of a file come
 * in one run, but a syntax error ends it. Getters take NULL nodes (nothing there) and return false.
 *
 * Anchors, aliases, tags, merge keys, several documents, duplicate keys and keys that are no plain
 * scalars are errors. Scalars are valid UTF-8 without control characters but tab and newline. */
#ifndef TICKBUS_CONFIG_YAML_YAML_H
#define TICKBUS_CONFIG_YAML_YAML_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define YAML_BYTES_MAX  (1u << 20)
#define YAML_DEPTH_MAX  32
#define YAML_NODES_MAX  100000
#define YAML_ERRORS_MAX 100 /* further ones are counted only */

enum yaml_kind { YAML_SCALAR, YAML_SEQUENCE, YAML_MAPPING };

struct yaml_node {
	enum yaml_kind kind;
	uint32_t line, column; /* from 1 */
	const char *text;      /* SCALAR: NUL-terminated; never contains a NUL */
	bool quoted;           /* SCALAR: in quotes or a block: a string whatever it looks like */
	const char *key;       /* of a mapping's child */
	uint32_t key_line, key_column;
	uint32_t index; /* of a sequence's child, from 0 */
	uint32_t count; /* children */
	const struct yaml_document *document;
	const struct yaml_node *parent;
	struct yaml_node *first, *last, *next; /* children; the next one of the same parent */
};

struct yaml_document;

struct yaml_errors {
	char *text; /* lines; NULL while there are none */
	size_t used, size;
	unsigned int count;
};

/* Reads a file, or text with a name for it in errors. NULL with errors. */
struct yaml_document *yaml_load(struct yaml_errors *, const char *path);
struct yaml_document *yaml_parse(struct yaml_errors *, const char *text, size_t length,
				 const char *origin);
/* Takes NULL. Frees all nodes. */
void yaml_free(struct yaml_document *);
/* The root; NULL for NULL. An empty document is an error already. */
const struct yaml_node *yaml_root(const struct yaml_document *);
/* The file's name, as it was given. */
const char *yaml_origin(const struct yaml_document *);

void yaml_errors_free(struct yaml_errors *);
/* Adds an error at a node: "file:line:column: path: words". */
void yaml_error(struct yaml_errors *, const struct yaml_node *, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
/* Adds a whole line that is not about a node. */
void yaml_error_line(struct yaml_errors *, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
/* What a node is, in words for "found ...": `"text"`, `a mapping`, `a sequence`. The buffer is cut.
 */
const char *yaml_found(const struct yaml_node *, char *buffer, size_t size);

/* The value of a key, or NULL. */
const struct yaml_node *yaml_get(const struct yaml_node *mapping, const char *key);
/* The same, and an error at the mapping where it is missing. */
const struct yaml_node *yaml_need(struct yaml_errors *, const struct yaml_node *mapping,
				  const char *key, const char *expected);

/* Whether the node is a mapping with none but these keys (ended by NULL); an error for each other
 * key, which names the nearest one that is known. */
bool yaml_keys(struct yaml_errors *, const struct yaml_node *, const char *const *known);
bool yaml_is_sequence(struct yaml_errors *, const struct yaml_node *, const char *expected);

/* Each checks and converts; false with an error (none for NULL), *value is then left as it is. */
bool yaml_integer(struct yaml_errors *, const struct yaml_node *, int64_t low, int64_t high,
		  int64_t *value);
bool yaml_boolean(struct yaml_errors *, const struct yaml_node *, bool *value);
bool yaml_string(struct yaml_errors *, const struct yaml_node *, size_t min_bytes, size_t max_bytes,
		 const char **value);
/* One of the words (ended by NULL): its index. */
bool yaml_word(struct yaml_errors *, const struct yaml_node *, const char *const *words,
	       unsigned int *value);

#endif
