/* SPDX-License-Identifier: Apache-2.0 */
/* Schemas: what the payload of a topic's records means.
 *
 * A schema is written in YAML (tickbus-schema(5)): a name, a version, and fields in order. Integers
 * are little-endian, aligned naturally. Rows of one topic may be rendered without knowing its
 * fields, and `tickbus schema header` prints a C struct of them.
 *
 * Errors   0 or a count, or -errno; tb_error() has the words: of a file, one line for each error,
 *          "file:line:column: path: what was found, what was expected".
 * Threads  a schema never changes once it is there: any thread may use it.
 * Memory   a schema owns all that its calls return; it is valid until tb_schema_free. Rendering
 *          allocates nothing. */
#ifndef TICKBUS_SCHEMA_H
#define TICKBUS_SCHEMA_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "tickbus/error.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TB_SCHEMA_NAME_MAX   63    /* bytes in a schema's or a field's name */
#define TB_SCHEMA_FIELDS_MAX 1024  /* fields, groups counted once */
#define TB_SCHEMA_TEXT_MAX   65535 /* bytes of the canonical text */

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
	TB_TYPE_PAD,       /* bytes without a meaning */
	TB_TYPE_GROUP,     /* several fields, repeated */
};

/* A field, or a member of a group. */
struct tb_field {
	const char *name;
	const char *doc;
	const char *role; /* "source_sequence", or "" */
	enum tb_type type;
	uint8_t scale;         /* DECIMAL64: digits behind the point, 0 to 18 */
	uint32_t offset;       /* from the payload's begin; of a member: from its group element's */
	uint32_t bytes;        /* of one element */
	uint32_t count;        /* elements; 1 where it is no array */
	uint8_t array;         /* whether it is an array (of one element, perhaps) */
	uint32_t member_count; /* GROUP */
	const struct tb_field *members;
};

/* Loads a schema: a built-in one by its name ("quote"), else a file by its path. -EINVAL with all
 * that is wrong, as many lines as tb_error() has room for and how many more there are; -ENOENT and
 * others: the file; -ENOMEM. */
TB_API int tb_schema_load(struct tb_schema **schema, const char *name_or_path);

/* The same from text; origin stands for the file's name in messages. */
TB_API int tb_schema_parse(struct tb_schema **schema, const char *text, size_t length,
			   const char *origin);

/* Takes NULL. */
TB_API void tb_schema_free(struct tb_schema *schema);

/* The names of the built-in schemas, ended by NULL. */
TB_API const char *const *tb_schema_builtins(void);

TB_API const char *tb_schema_name(const struct tb_schema *schema);
TB_API uint32_t tb_schema_version(const struct tb_schema *schema);

/* Covers all that changes the meaning of bytes: the name, each field's name, type, scale, count,
 * role and place. Not the version number and not the words of doc. */
TB_API uint64_t tb_schema_fingerprint(const struct tb_schema *schema);

/* Bytes of a payload, 1 to TB_PAYLOAD_MAX. */
TB_API size_t tb_schema_bytes(const struct tb_schema *schema);

/* The canonical text: YAML that parses to a schema equal to this one. *length without the NUL. */
TB_API const char *tb_schema_text(const struct tb_schema *schema, size_t *length);

/* The fields, in order; *count of them. */
TB_API const struct tb_field *tb_schema_fields(const struct tb_schema *schema, size_t *count);

/* The word for a type ("decimal64"). */
TB_API const char *tb_type_name(enum tb_type type);

/* Whether a program written for `subscriber` may read records of `publisher`: the same fields, to
 * which the publisher may have appended others. 0, or -EPROTO with words that name both schemas and
 * the first field that differs. */
TB_API int tb_schema_compatible(const struct tb_schema *publisher,
				const struct tb_schema *subscriber);

enum tb_format { TB_FORMAT_TEXT = 1, TB_FORMAT_CSV, TB_FORMAT_JSON };

/* Column names of a CSV row, with commas between: scalars `price`, arrays `level[0]`, groups
 * `bids[0].price`. Like snprintf: the length there would be; at most size bytes are written, with a
 * NUL. */
TB_API size_t tb_schema_columns(const struct tb_schema *schema, char *buffer, size_t size);

/* Renders one payload: CSV `1.0000,5`, JSON `"price":"1.0000","size":5`, text `price=1.0000
 * size=5`. Decimals have all digits of their scale, and in JSON they are strings; times are
 * nanoseconds since 1970, in text ISO 8601; texts come without their padding. Fields beyond
 * `length` are empty (CSV), null (JSON), `-` (text). Return as snprintf does. */
TB_API size_t tb_schema_render(const struct tb_schema *schema, enum tb_format format,
			       const void *payload, size_t length, char *buffer, size_t size);

/* Prints a C header: struct, static asserts, field table, fingerprint. The text is to be freed with
 * free(). NULL: no memory. */
TB_API char *tb_schema_header(const struct tb_schema *schema);

#ifdef __cplusplus
}
#endif

#endif
