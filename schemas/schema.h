/* SPDX-License-Identifier: Apache-2.0 */
/* A schema in memory, for the files of this folder.
 *
 * S-I1  A schema never changes after tb_schema_parse returned it.
 * S-I2  Fields follow each other without a hole, each at a multiple of its alignment. The last ends
 *     at `bytes`, at most TB_PAYLOAD_MAX. The members of a group follow each other in its element
 *     in the same way.
 * S-I3  Groups are not nested: no member is a group.
 * S-I4  No pad, no group and no field with a role is optional. */
#ifndef TICKBUS_SCHEMAS_SCHEMA_H
#define TICKBUS_SCHEMAS_SCHEMA_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "tickbus/record.h"
#include "tickbus/schema.h"

#define SCHEMA_VERSION_MAX 65535
#define SCHEMA_DOC_MAX     200 /* bytes in a doc line */

struct tb_schema {
	const char *name;
	const char *doc; /* "" without a doc line */
	uint32_t version;
	uint32_t bytes;
	struct tb_field *fields;
	size_t field_count;
	char *text;
	size_t text_length;
	uint64_t fingerprint;
};

/* type.c: texts of types, read and written. */

/* Fills type, scale, bytes, count and array from a text like "decimal64(4)[10]". Returns NULL, or
 * what was expected. A group's bytes are 0 until its members are known. */
const char *type_parse(const char *text, struct tb_field *field);

#define TYPE_TEXT_BYTES 48
const char *type_format(const struct tb_field *field, char text[TYPE_TEXT_BYTES]);

/* "int64_t"; NULL for a group. */
const char *type_c_name(enum tb_type type);

/* The null of an optional field in C: "INT64_MIN". NULL for pad and group, which have no null. */
const char *type_c_null(enum tb_type type);

uint32_t type_alignment(const struct tb_field *field);

/* names.c: return NULL, or what was expected. */
const char *names_check(const char *name);
const char *names_check_field(const char *name);

/* text.c: fills text, text_length and fingerprint. 0 or -ENOMEM. */
int text_make(struct tb_schema *schema);

/* header.c: prefix begins the names of structs and, in upper case, of macros. 0 or -ENOMEM. */
int header_print(const struct tb_schema *schema, const char *prefix, FILE *file);

#endif
