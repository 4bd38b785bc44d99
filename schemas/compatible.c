/* SPDX-License-Identifier: Apache-2.0 */
/* Checks whether a program written for one schema may read records of another.
 *
 * It may if the fields are equal. It also may if the publisher's version is newer and begins with
 * all fields of the subscriber's. Equal version numbers with different fields are refused: a schema
 * that gains a field gets a higher version.
 *
 * A subscriber that takes nulls may read a field without them. A subscriber that takes none would
 * read the null of an optional field as a price or a size. */
#include "schemas/schema.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "bus/error.h"

#define FIELD_TEXT_BYTES (TB_SCHEMA_NAME_MAX + TYPE_TEXT_BYTES + 64)

struct difference {
	char path[2 * TB_SCHEMA_NAME_MAX + 32];
	char publisher[FIELD_TEXT_BYTES];
	char subscriber[FIELD_TEXT_BYTES];
};

static void describe(const struct tb_field *field, char text[FIELD_TEXT_BYTES])
{
	char type[TYPE_TEXT_BYTES];

	if (!field)
		snprintf(text, FIELD_TEXT_BYTES, "nothing");
	else if (field->type == TB_TYPE_PAD)
		snprintf(text, FIELD_TEXT_BYTES, "%s", type_format(field, type));
	else
		snprintf(text, FIELD_TEXT_BYTES, "%s%s %s%s%s", field->optional ? "optional " : "",
			 field->name, type_format(field, type), field->role[0] ? " as " : "",
			 field->role);
}

static bool fits(const struct tb_field *publisher, const struct tb_field *subscriber)
{
	const struct tb_field *a = publisher, *b = subscriber;

	return !strcmp(a->name, b->name) && a->type == b->type && a->scale == b->scale &&
	       (a->type == TB_TYPE_GROUP || a->bytes == b->bytes) && a->count == b->count &&
	       a->array == b->array && !strcmp(a->role, b->role) && (!a->optional || b->optional);
}

/* The number of fields that fit from the first on, publisher's and subscriber's; `where` describes
 * the first difference. */
static size_t compare(const struct tb_field *a, size_t a_count, const struct tb_field *b,
		      size_t b_count, const char *group, struct difference *where)
{
	for (size_t i = 0; i < a_count || i < b_count; i++) {
		const struct tb_field *x = i < a_count ? &a[i] : NULL;
		const struct tb_field *y = i < b_count ? &b[i] : NULL;

		if (x && y && fits(x, y)) {
			if (x->type != TB_TYPE_GROUP ||
			    (compare(x->members, x->member_count, y->members, y->member_count,
				     x->name, where) == x->member_count &&
			     x->member_count == y->member_count))
				continue;
			return i;
		}
		snprintf(where->path, sizeof(where->path), "field %zu%s%s", i + 1,
			 group ? " of " : "", group ? group : "");
		describe(x, where->publisher);
		describe(y, where->subscriber);
		return i;
	}
	return a_count;
}

TB_API int tb_schema_compatible(const struct tb_schema *publisher,
				const struct tb_schema *subscriber)
{
	struct difference where;
	size_t same;

	if (!publisher || !subscriber)
		return error_null("schema");
	if (strcmp(publisher->name, subscriber->name) != 0)
		return error_set(
			EPROTO,
			"publisher has schema %s version %u, subscriber expects %s version "
			"%u",
			publisher->name, publisher->version, subscriber->name, subscriber->version);
	same = compare(publisher->fields, publisher->field_count, subscriber->fields,
		       subscriber->field_count, NULL, &where);
	if (same == subscriber->field_count &&
	    (same == publisher->field_count || publisher->version > subscriber->version))
		return 0;
	return error_set(EPROTO,
			 "publisher has schema %s version %u, subscriber expects %s version %u: "
			 "first difference at %s: publisher has %s, subscriber expects %s",
			 publisher->name, publisher->version, subscriber->name, subscriber->version,
			 where.path, where.publisher, where.subscriber);
}
