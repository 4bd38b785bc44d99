/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a schema:
 *
 *   name: quote                 # 1 to 63 of a-z 0-9 _
 *   version: 1                  # 1 to 65535
 *   doc: One line.              # optional
 *   fields:
 *     - { name: bid_price, type: decimal64(4) }
 *     - { name: number, type: u64, role: source_sequence, doc: One line. } # doc: optional
 *     - { name: ask_price, type: decimal64(4), optional: true } # may be null; default false
 *     - type: pad[4]            # bytes without a meaning: neither name nor doc
 *     - name: bids
 *       type: group[10]         # an array of several fields, which are no groups themselves
 *       doc: One line.
 *       fields: [ ... ]
 *
 * Every field lies at a multiple of its alignment in file order: where a compiler would pad, a pad
 * must be written. */
#include "schemas/read.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bus/bounds.h"
#include "bus/error.h"
#include "config/yaml/located.h"

static const char *const schema_keys[] = { "name", "version", "doc", "fields", NULL };
static const char *const field_keys[] = {
	"name", "type", "doc", "role", "optional", "fields", NULL
};
static const char *const roles[] = { "source_sequence", NULL };

struct reading {
	struct tb_schema *schema;
	struct located_errors errors;
	const struct located_node *source_sequence; /* the first field of that role */
};

static void no_memory(struct reading *reading)
{
	located_no_memory(&reading->errors, "a schema");
}

static char *copy(struct reading *reading, const char *text)
{
	char *result = strdup(text ? text : "");

	if (!result)
		no_memory(reading);
	return result;
}

static const char *read_doc(struct reading *reading, const struct located_node *node)
{
	const char *doc = "";

	if (located_string(&reading->errors, node, 0, SCHEMA_DOC_MAX, &doc) && strchr(doc, '\n'))
		located_error(&reading->errors, node,
			      "found several lines, expected a single line");
	return copy(reading, doc);
}

static const char *read_name(struct reading *reading, const struct located_node *node,
			     const char *(*check)(const char *))
{
	const char *name = NULL, *expected = NULL;
	char found[80];

	if (!located_string(&reading->errors, node, 1, TB_SCHEMA_NAME_MAX, &name))
		return copy(reading, "");
	expected = check(name);
	if (expected)
		located_error(&reading->errors, node, "found %s, expected %s",
			      located_found(node, found, sizeof(found)), expected);
	return copy(reading, name);
}

static void read_role(struct reading *reading, const struct located_node *node,
		      struct tb_field *field, bool member)
{
	unsigned int role;

	field->role = copy(reading, node && node->kind == YAML_SCALAR ? node->text : "");
	if (!located_word(&reading->errors, node, roles, &role))
		return;
	if ((field->type != TB_TYPE_U64 && field->type != TB_TYPE_U32) || field->array || member)
		located_error(&reading->errors, node,
			      "found this role for %s, expected it for a u32 or u64 outside arrays "
			      "and groups",
			      tb_type_name(field->type));
	else if (reading->source_sequence)
		located_error(&reading->errors, node,
			      "found a second source_sequence, expected one (first on line %u)",
			      reading->source_sequence->line);
	else
		reading->source_sequence = node;
}

static bool read_type(struct reading *reading, const struct located_node *node,
		      struct tb_field *field)
{
	const char *text = NULL, *expected;
	char found[80];

	if (!located_string(&reading->errors, node, 1, TYPE_TEXT_BYTES - 1, &text))
		return false;
	expected = type_parse(text, field);
	if (expected)
		located_error(&reading->errors, node, "found %s, expected %s",
			      located_found(node, found, sizeof(found)), expected);
	return !expected;
}

static void expect_absent(struct reading *reading, const struct located_node *field,
			  const char *key, const char *where)
{
	const struct located_node *node = located_get(field, key);

	if (node)
		located_error(&reading->errors, node,
			      "found this key for type %s, which does not take it", where);
}

/* A number of messages is never unknown, and neither padding nor a group is a value. */
static void read_optional(struct reading *reading, const struct located_node *node,
			  struct tb_field *field)
{
	bool optional = false;

	if (!type_c_null(field->type))
		expect_absent(reading, node, "optional", tb_type_name(field->type));
	else if (field->role && field->role[0] && located_get(node, "optional"))
		located_error(&reading->errors, located_get(node, "optional"),
			      "found this key for role %s, expected it for a field without a role",
			      field->role);
	else
		located_boolean(&reading->errors, located_get(node, "optional"), &optional);
	field->optional = optional;
}

static uint32_t read_fields(struct reading *reading, const struct located_node *list,
			    const struct located_node *owner, struct tb_field **fields,
			    size_t *count, bool members);

static void read_group(struct reading *reading, const struct located_node *node,
		       struct tb_field *field)
{
	const struct located_node *list =
		located_need(&reading->errors, node, "fields", "the fields of the group");
	struct tb_field *members = NULL;
	size_t count = 0;

	field->bytes = read_fields(reading, list, node, &members, &count, true);
	field->members = members;
	field->member_count = (uint32_t)count;
}

/* Reads all of a field but its offset. */
static bool read_field(struct reading *reading, const struct located_node *node,
		       struct tb_field *field, bool member)
{
	const struct located_node *type;
	const char *kind = tb_type_name(TB_TYPE_PAD);

	if (!located_keys(&reading->errors, node, field_keys))
		return false;
	type = located_need(&reading->errors, node, "type", "a type");
	if (!read_type(reading, type, field)) {
		field->type = 0;
		if (located_get(node, "name")) /* padding needs no name */
			field->name =
				read_name(reading, located_get(node, "name"), names_check_field);
		return false;
	}
	if (field->type == TB_TYPE_PAD) {
		expect_absent(reading, node, "name", kind);
		expect_absent(reading, node, "doc", kind);
		field->name = copy(reading, "");
		field->doc = copy(reading, "");
	} else {
		field->name = read_name(
			reading, located_need(&reading->errors, node, "name", "a field's name"),
			names_check_field);
		field->doc = read_doc(reading, located_get(node, "doc"));
	}
	read_role(reading, located_get(node, "role"), field, member);
	read_optional(reading, node, field);
	if (field->type == TB_TYPE_GROUP && member) {
		located_error(&reading->errors, type,
			      "found a group inside a group, expected a field that is no group");
		return false;
	}
	if (field->type == TB_TYPE_GROUP)
		read_group(reading, node, field);
	else
		expect_absent(reading, node, "fields", tb_type_name(field->type));
	return field->bytes > 0;
}

/* Sets a field's offset to `end`, and returns the new end. */
static uint32_t offset_field(struct reading *reading, const struct located_node *node,
			     struct tb_field *field, uint32_t end)
{
	const uint32_t alignment = type_alignment(field), over = end % alignment;
	const uint64_t bytes = (uint64_t)field->bytes * field->count;

	field->offset = end;
	if (over)
		located_error(&reading->errors, node,
			      "found this field at byte %u, expected a multiple of %u: put pad[%u] "
			      "before "
			      "it",
			      end, alignment, alignment - over);
	if (bytes > TB_PAYLOAD_MAX - end) {
		located_error(&reading->errors, node,
			      "found %llu bytes from byte %u on, expected at most %u in all",
			      (unsigned long long)bytes, end, TB_PAYLOAD_MAX);
		return 0;
	}
	return end + (uint32_t)bytes;
}

static bool name_again(struct reading *reading, const struct located_node *node,
		       const struct tb_field *fields, const struct tb_field *field)
{
	for (const struct tb_field *before = fields; before < field; before++)
		if (before->name && *before->name && field->name &&
		    strcmp(before->name, field->name) == 0) {
			located_error(&reading->errors, located_get(node, "name"),
				      "found %s again, expected each name once", field->name);
			return true;
		}
	return false;
}

/* Requires the padding that a compiler would add after the last field. */
static void expect_full(struct reading *reading, const struct located_node *owner,
			const struct tb_field *fields, size_t count, uint32_t end)
{
	uint32_t alignment = 1;

	for (size_t i = 0; i < count; i++)
		if (type_alignment(&fields[i]) > alignment)
			alignment = type_alignment(&fields[i]);
	if (end % alignment)
		located_error(&reading->errors, owner,
			      "found %u bytes, expected a multiple of %u: put pad[%u] at the end",
			      end, alignment, alignment - end % alignment);
}

/* Returns the bytes of all fields; 0 with errors. *fields has what was allocated in any case. */
static uint32_t read_fields(struct reading *reading, const struct located_node *list,
			    const struct located_node *owner, struct tb_field **fields,
			    size_t *count, bool members)
{
	const unsigned int errors = reading->errors.count;
	uint32_t end = 0;

	if (!located_is_sequence(&reading->errors, list, "a list of fields"))
		return 0;
	if (list->count < 1 || list->count > TB_SCHEMA_FIELDS_MAX) {
		located_error(&reading->errors, list, "found %u fields, expected 1 to %u",
			      list->count, TB_SCHEMA_FIELDS_MAX);
		return 0;
	}
	*fields = calloc(list->count, sizeof(**fields));
	if (!*fields) {
		no_memory(reading);
		return 0;
	}
	for (const struct located_node *node = list->first; node; node = node->next) {
		struct tb_field *field = &(*fields)[(*count)++];

		const bool right = read_field(reading, node, field, members);

		if (name_again(reading, node, *fields, field) || !right)
			continue;
		/* After a wrong field, all offsets would be wrong. */
		if (reading->errors.count == errors)
			end = offset_field(reading, node, field, end);
	}
	if (reading->errors.count == errors)
		expect_full(reading, owner, *fields, *count, end);
	return reading->errors.count == errors ? end : 0;
}

/* Members of two groups, of which the second has the longer name: b_c of a, and c of a_b. */
static void expect_members_apart(struct reading *reading, const struct located_node *list,
				 const struct tb_field *a, const struct tb_field *b)
{
	const size_t length = strlen(a->name);
	const char *rest;
	size_t more;

	if (strncmp(a->name, b->name, length) != 0 || b->name[length] != '_')
		return;
	rest = b->name + length + 1;
	more = strlen(rest);
	for (uint32_t i = 0; i < a->member_count; i++)
		for (uint32_t k = 0; k < b->member_count; k++) {
			const char *name = a->members[i].name;

			if (strncmp(name, rest, more) == 0 && name[more] == '_' &&
			    strcmp(name + more + 1, b->members[k].name) == 0)
				located_error(&reading->errors, list,
					      "found a member %s of %s and a member %s of %s, "
					      "expected names whose macros in C differ",
					      name, a->name, b->members[k].name, b->name);
		}
}

/* The header's macros put a group's name before its members'. */
static void expect_macros_apart(struct reading *reading, const struct located_node *list)
{
	const struct tb_schema *schema = reading->schema;
	char name[2 * TB_SCHEMA_NAME_MAX + 2];

	for (size_t a = 0; a < schema->field_count; a++)
		for (size_t b = 0; b < schema->field_count; b++)
			if (schema->fields[a].member_count && schema->fields[b].member_count)
				expect_members_apart(reading, list, &schema->fields[a],
						     &schema->fields[b]);
	for (size_t g = 0; g < schema->field_count; g++)
		for (uint32_t m = 0; m < schema->fields[g].member_count; m++) {
			snprintf(name, sizeof(name), "%s_%s", schema->fields[g].name,
				 schema->fields[g].members[m].name);
			for (size_t i = 0; i < schema->field_count; i++)
				if (strcmp(schema->fields[i].name, name) == 0)
					located_error(&reading->errors, list,
						      "found a field %s and a member %s of %s, "
						      "expected names whose macros in C differ",
						      name, schema->fields[g].members[m].name,
						      schema->fields[g].name);
		}
}

static void make_text(struct reading *reading, const struct located_node *root)
{
	struct tb_schema *schema = reading->schema;

	if (text_make(schema) < 0)
		no_memory(reading);
	else if (schema->text_length > TB_SCHEMA_TEXT_MAX)
		located_error(
			&reading->errors, root,
			"found %zu bytes in canonical form, expected at most %u: fewer fields "
			"or shorter lines of doc",
			schema->text_length, TB_SCHEMA_TEXT_MAX);
}

static void read_schema(struct reading *reading, const struct located_node *root)
{
	struct tb_schema *schema = reading->schema;
	const struct located_node *list;
	int64_t version = 0;

	if (!located_keys(&reading->errors, root, schema_keys))
		return;
	schema->name = read_name(reading,
				 located_need(&reading->errors, root, "name", "the schema's name"),
				 names_check);
	if (located_integer(
		    &reading->errors,
		    located_need(&reading->errors, root, "version",
				 "a whole number from 1 to " BOUND_TEXT(SCHEMA_VERSION_MAX)),
		    1, SCHEMA_VERSION_MAX, &version))
		schema->version = (uint32_t)version;
	schema->doc = read_doc(reading, located_get(root, "doc"));
	list = located_need(&reading->errors, root, "fields", "a list of fields");
	schema->bytes =
		read_fields(reading, list, root, &schema->fields, &schema->field_count, false);
	if (!reading->errors.count)
		expect_macros_apart(reading, list);
	if (!reading->errors.count)
		make_text(reading, root);
}

/* Sets as many errors as tb_error() can hold, a line each, and the number of the others. */
static int errors_set(const struct reading *reading)
{
	const size_t room = ERROR_BYTES - 1 - sizeof("and 4294967295 more errors");
	const char *text = reading->errors.text ? reading->errors.text : "";
	const int code = reading->errors.no_memory ? ENOMEM : EINVAL;
	unsigned int shown = 0;
	size_t used = 0;

	if (!*text)
		return error_set(code, "a schema: no memory to say what is wrong with it");
	while (text[used] && used + strcspn(text + used, "\n") < room) {
		used += strcspn(text + used, "\n") + 1;
		shown++;
	}
	if (shown && shown == reading->errors.count)
		return error_set(code, "%.*s", (int)used - 1, text);
	return error_set(code, "%.*sand %u more errors", (int)used, text,
			 reading->errors.count - shown);
}

/* Frees the document, and keeps no pointer into it. */
static int read_document(struct tb_schema **result, struct located_document *document,
			 struct reading *reading)
{
	int code = 0;

	reading->schema = calloc(1, sizeof(*reading->schema));
	if (!reading->schema)
		no_memory(reading);
	else if (document)
		read_schema(reading, located_root(document));
	located_free(document);
	if (reading->errors.count)
		code = errors_set(reading);
	located_errors_free(&reading->errors);
	if (code == 0)
		*result = reading->schema;
	else
		tb_schema_free(reading->schema);
	return code;
}

TB_API int tb_schema_parse(struct tb_schema **schema, const char *text, size_t length,
			   const char *origin)
{
	struct reading reading = { 0 };

	*schema = NULL;
	if (!text || !origin)
		return error_set(EINVAL, "schema: found no %s", text ? "origin" : "text");
	return read_document(schema, located_parse(&reading.errors, text, length, origin),
			     &reading);
}

int read_file(struct tb_schema **schema, const char *path)
{
	struct reading reading = { 0 };

	*schema = NULL;
	if (access(path, R_OK) < 0)
		return error_set(errno, "%s: cannot be read: %s", path, strerror(errno));
	return read_document(schema, located_load(&reading.errors, path), &reading);
}

static void fields_free(struct tb_field *fields, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		free((char *)(uintptr_t)fields[i].name);
		free((char *)(uintptr_t)fields[i].doc);
		free((char *)(uintptr_t)fields[i].role);
		/* Groups are not nested. */
		fields_free((struct tb_field *)(uintptr_t)fields[i].members,
			    fields[i].member_count);
	}
	free(fields);
}

TB_API void tb_schema_free(struct tb_schema *schema)
{
	if (!schema)
		return;
	fields_free(schema->fields, schema->field_count);
	free((char *)(uintptr_t)schema->name);
	free((char *)(uintptr_t)schema->doc);
	free(schema->text);
	free(schema);
}
