/* SPDX-License-Identifier: Apache-2.0 */
/* A schema in memory, for the files of this folder.
 *
 * I1  Once tb_schema_parse returned it, nothing of a schema changes.
 * I2  Fields lie one behind the other without a hole, each at a multiple of its alignment; the last
 *     one ends at `bytes`, at most TB_PAYLOAD_MAX. A group's members lie in its element likewise.
 * I3  Groups are not nested: no member is a group. */
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
	const char *doc; /* "" where there is none */
	uint32_t version;
	uint32_t bytes;
	struct tb_field *fields;
	size_t field_count;
	char *text;
	size_t text_length;
	uint64_t fingerprint;
};

/* type.c: the words for types, read and written. */

/* Fills type, scale, bytes, count and array from words like "decimal64(4)[10]". NULL, or what was
 * expected instead. A group's bytes are 0 until its members are known. */
const char *type_parse(const char *text, struct tb_field *field);

#define TYPE_TEXT_BYTES 48
const char *type_format(const struct tb_field *field, char text[TYPE_TEXT_BYTES]);

/* "int64_t"; NULL for a group. */
const char *type_c_name(enum tb_type type);

uint32_t type_alignment(const struct tb_field *field);

/* names.c: NULL, or what was expected instead. */
const char *names_check(const char *name);
const char *names_check_field(const char *name);

/* text.c: fills text, text_length and fingerprint. 0 or -ENOMEM. */
int text_make(struct tb_schema *schema);

/* header.c: prefix stands before the names of structs, in upper case of macros. 0 or -ENOMEM. */
int header_print(const struct tb_schema *schema, const char *prefix, FILE *file);

#endif
