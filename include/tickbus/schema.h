/* SPDX-License-Identifier: Apache-2.0 */
/* Schemas: what the payload of a topic's records means.
 *
 * A schema is written in YAML (tickbus-schema(5)): a name, a version, and fields in order. Integers
 * are little-endian, with natural alignment. A program can print rows of any schema without knowing
 * its fields; `tickbus schema header` prints a C struct of them.
 *
 * Errors   0 or a count, or -errno; tb_error() has the message. For a file it has one line for each
 *          error: "file:line:column: path: what was found, what was expected".
 * Threads  a loaded schema never changes: any thread may use it.
 * Memory   a schema owns all that its calls return, until tb_schema_free. Rendering allocates
 *          nothing. */
#ifndef TICKBUS_SCHEMA_H
#define TICKBUS_SCHEMA_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "tickbus/error.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TB_SCHEMA_NAME_MAX   63    /* maximum bytes in the name of a schema or field */
#define TB_SCHEMA_FIELDS_MAX 1024  /* maximum fields; a group counts once */
#define TB_SCHEMA_TEXT_MAX   65535 /* maximum bytes of the canonical text */

struct tb_schema;

enum tb_type {
	TB_TYPE_I8 = 1,
	TB_TYPE_I16,
	TB_TYPE_I32,
	TB_TYPE_I64,
	TB_TYPE_U8,
	TB_TYPE_U16,
	TB_TYPE_U32,
	TB_TYPE_U64,
	TB_TYPE_F64,
	TB_TYPE_CHAR,      /* text of `bytes`, padded with spaces or zero bytes */
	TB_TYPE_DECIMAL64, /* i64 / 10^scale */
	TB_TYPE_TIME,      /* u64: nanoseconds since 1970 UTC */
	TB_TYPE_PAD,       /* padding bytes */
	TB_TYPE_GROUP,     /* several fields, repeated */
};

/* A field, or a member of a group. */
struct tb_field {
	const char *name;
	const char *doc;  /* "" if the schema has no doc line here */
	const char *role; /* "source_sequence", or "" */
	enum tb_type type;
	uint8_t scale;         /* DECIMAL64: digits after the decimal point, 0 to 18 */
	uint32_t offset;       /* bytes from the start of the payload, or of the group element */
	uint32_t bytes;        /* of one element */
	uint32_t count;        /* elements; 1 if it is no array */
	uint8_t array;         /* 1: an array, which may have one element */
	uint8_t optional;      /* 1: each element may be null; see tb_field_is_null */
	uint32_t member_count; /* GROUP */
	const struct tb_field *members;
};

/* Loads a built-in schema by its name ("quote"), or else a file by its path.
 *
 * -EINVAL: the text is wrong; the message lists the errors that fit, and counts the rest. -ENOENT
 * and others: the file. -ENOMEM. */
TB_API int tb_schema_load(struct tb_schema **schema, const char *name_or_path);

/* Reads a schema from text. Messages show origin as the name of the file. Errors as above. */
TB_API int tb_schema_parse(struct tb_schema **schema, const char *text, size_t length,
			   const char *origin);

/* Frees a schema. Takes NULL. */
TB_API void tb_schema_free(struct tb_schema *schema);

/* The names of the built-in schemas, ended by NULL. */
TB_API const char *const *tb_schema_builtins(void);

TB_API const char *tb_schema_name(const struct tb_schema *schema);
TB_API uint32_t tb_schema_version(const struct tb_schema *schema);

/* A hash of all that gives bytes their meaning: the schema's name, and of each field the name,
 * type, scale, count, role, offset and `optional`. It does not cover the version and the doc
 * texts. */
TB_API uint64_t tb_schema_fingerprint(const struct tb_schema *schema);

/* Payload size in bytes, 1 to TB_PAYLOAD_MAX. */
TB_API size_t tb_schema_bytes(const struct tb_schema *schema);

/* The canonical text: YAML that parses to an equal schema. *length does not count the NUL. */
TB_API const char *tb_schema_text(const struct tb_schema *schema, size_t *length);

/* An array of the *count fields, in order. */
TB_API const struct tb_field *tb_schema_fields(const struct tb_schema *schema, size_t *count);

/* The name of a type ("decimal64"). */
TB_API const char *tb_type_name(enum tb_type type);

/* Tests whether an element of a field is null: not known, or not there. `element` is the first of
 * its field->bytes bytes, at any alignment. Returns 1 or 0; 0 for each field that is not optional.
 *
 * Null is the minimum of a signed integer and of a decimal's i64. It is the maximum of an unsigned
 * integer and of a time. In an f64 each NaN is null, in a char field only zero bytes are. */
TB_API int tb_field_is_null(const struct tb_field *field, const void *element);

/* Writes null to the field->bytes bytes of an element, at any alignment. Returns 0, or -EINVAL if
 * the field is not optional; the element then stays as it is. */
TB_API int tb_field_set_null(const struct tb_field *field, void *element);

/* Checks that a program written for `subscriber` can read records of `publisher`, whose schema may
 * have more fields at its end. The subscriber's field may be optional where the publisher's is not.
 * Returns 0, or -EPROTO with a message that names both schemas and the first field that differs. */
TB_API int tb_schema_compatible(const struct tb_schema *publisher,
				const struct tb_schema *subscriber);

/* A spreadsheet runs CSV fields that begin with = + - or @ as formulas, which may start programs.
 * TB_FORMAT_SPREADSHEET is CSV with an apostrophe before this text, at the start of a char field
 * and behind a semicolon or a quote in it. Numbers are as in CSV. */
enum tb_format { TB_FORMAT_TEXT = 1, TB_FORMAT_CSV, TB_FORMAT_JSON, TB_FORMAT_SPREADSHEET };

/* Writes the column names of a CSV row with commas between: `price` for a scalar, `level[0]` for an
 * array, `bids[0].price` for a group. Like snprintf, it writes at most size bytes with the NUL, and
 * returns the length of the whole text. */
TB_API size_t tb_schema_columns(const struct tb_schema *schema, char *buffer, size_t size);

/* Writes one payload: CSV `1.0000,5`, JSON `"price":"1.0000","size":5`, text `price=1.0000 size=5`.
 * Decimals have all digits of their scale, and are strings in JSON. Times are nanoseconds since
 * 1970, in text ISO 8601. Padding of char fields is left out. Nulls of optional fields, and fields
 * beyond `length`, are empty (CSV), null (JSON) or `-` (text). Returns as tb_schema_columns. */
TB_API size_t tb_schema_render(const struct tb_schema *schema, enum tb_format format,
			       const void *payload, size_t length, char *buffer, size_t size);

/* Prints a C header: struct, static asserts, field table, fingerprint, nulls. The caller frees the
 * text with free(). NULL: no memory. */
TB_API char *tb_schema_header(const struct tb_schema *schema);

#ifdef __cplusplus
}
#endif

#endif
