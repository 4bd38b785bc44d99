/* SPDX-License-Identifier: Apache-2.0 */
/* Prints a schema as a C header, which C11 and C++17 compile without a warning. It has a struct
 * with the payload's layout, assertions of that layout, constants, and nulls. */
#include "schemas/schema.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "bus/error.h"

struct header {
	FILE *file;
	char name[TB_SCHEMA_NAME_MAX + 8];  /* of the struct: "tb_quote" */
	char macro[TB_SCHEMA_NAME_MAX + 8]; /* what macros begin with: "TB_QUOTE" */
};

struct upper {
	char text[TB_SCHEMA_NAME_MAX + 8];
};

static struct upper upper(const char *name)
{
	struct upper result = { "" };

	for (size_t i = 0; name[i] && i + 1 < sizeof(result.text); i++)
		result.text[i] =
			name[i] >= 'a' && name[i] <= 'z' ? (char)(name[i] - 'a' + 'A') : name[i];
	return result;
}

/* Keeps a doc line from ending its comment, or from seeming to begin another. */
static void print_doc(FILE *file, const char *doc)
{
	for (; *doc; doc++) {
		fputc(*doc, file);
		if ((doc[0] == '*' && doc[1] == '/') || (doc[0] == '/' && doc[1] == '*'))
			fputc(' ', file);
	}
}

static bool any_optional(const struct tb_field *fields, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (fields[i].optional || any_optional(fields[i].members, fields[i].member_count))
			return true;
	return false;
}

static void print_constants(const struct header *header, const struct tb_schema *schema)
{
	FILE *file = header->file;
	const char *macro = header->macro;

	fprintf(file, "/* %s, version %u", schema->name, schema->version);
	if (schema->doc[0])
		fputs(": ", file);
	print_doc(file, schema->doc);
	fprintf(file,
		"\n *\n * Printed from the schema: change that, not this file. */\n"
		"#ifndef %s_SCHEMA_H\n#define %s_SCHEMA_H\n\n"
		"#include <assert.h>\n#include <stddef.h>\n#include <stdint.h>\n%s\n",
		macro, macro,
		any_optional(schema->fields, schema->field_count) ? "#include <string.h>\n" : "");
	fprintf(file, "#define %s_NAME \"%s\"\n", macro, schema->name);
	fprintf(file, "#define %s_VERSION %u\n", macro, schema->version);
	fprintf(file, "#define %s_FINGERPRINT UINT64_C(0x%016" PRIx64 ")\n", macro,
		schema->fingerprint);
	fprintf(file, "#define %s_BYTES %u\n", macro, schema->bytes);
}

static void print_scales(const struct header *header, const char *group,
			 const struct tb_field *fields, size_t count)
{
	for (const struct tb_field *field = fields; field < fields + count; field++) {
		if (field->type == TB_TYPE_DECIMAL64)
			fprintf(header->file, "#define %s_%s%s%s_SCALE %u\n", header->macro,
				upper(group).text, group[0] ? "_" : "", upper(field->name).text,
				field->scale);
		if (field->type == TB_TYPE_GROUP)
			print_scales(header, field->name, field->members, field->member_count);
	}
}

/* The test of one value. A double is null if it is any NaN, and no comparison finds a NaN. */
static void print_is_null(FILE *file, const struct tb_field *field)
{
	if (field->type == TB_TYPE_F64)
		fputs("(__builtin_isnan(value) != 0)\n", file);
	else if (field->type != TB_TYPE_CHAR)
		fprintf(file, "((value) == %s)\n", type_c_null(field->type));
	else if (field->bytes == 1)
		fputs("(!*(value))\n", file);
	else
		fprintf(file, "(!*(value) && !memcmp((value), (value) + 1, %u))\n",
			field->bytes - 1);
}

static void print_nulls(const struct header *header, const char *group,
			const struct tb_field *fields, size_t count)
{
	FILE *file = header->file;
	const char *line = group[0] ? "_" : "";

	for (size_t i = 0; i < count; i++) {
		const struct tb_field *field = &fields[i];

		if (field->optional) {
			fprintf(file, "#define %s_%s%s%s_NULL %s\n", header->macro,
				upper(group).text, line, upper(field->name).text,
				type_c_null(field->type));
			fprintf(file, "#define %s_%s%s%s_ISNULL(value) ", header->macro,
				upper(group).text, line, upper(field->name).text);
			print_is_null(file, field);
		}
		print_nulls(header, field->name, field->members, field->member_count);
	}
}

static void print_member(const struct header *header, const struct tb_field *field)
{
	FILE *file = header->file;
	char type[TYPE_TEXT_BYTES];

	if (field->type == TB_TYPE_PAD) {
		fprintf(file, "\tuint8_t _pad%u[%u];\n", field->offset, field->bytes);
		return;
	}
	fputs("\t/* ", file);
	print_doc(file, field->doc);
	fprintf(file, "%s%s%s%s%s%s */\n\t", field->doc[0] ? " (" : "", type_format(field, type),
		field->role[0] ? ", " : "", field->role, field->optional ? ", optional" : "",
		field->doc[0] ? ")" : "");
	if (field->type == TB_TYPE_GROUP)
		fprintf(file, "struct %s_%s %s", header->name, field->name, field->name);
	else
		fprintf(file, "%s %s", type_c_name(field->type), field->name);
	if (field->array)
		fprintf(file, "[%u]", field->count);
	if (field->type == TB_TYPE_CHAR)
		fprintf(file, "[%u]", field->bytes);
	fputs(";\n", file);
}

/* group "": the payload. */
static void print_struct(const struct header *header, const char *group,
			 const struct tb_field *fields, size_t count, uint32_t bytes)
{
	FILE *file = header->file;
	const char *line = group[0] ? "_" : "";

	for (size_t i = 0; i < count; i++)
		if (fields[i].type == TB_TYPE_GROUP)
			print_struct(header, fields[i].name, fields[i].members,
				     fields[i].member_count, fields[i].bytes);
	fprintf(file, "\nstruct %s%s%s {\n", header->name, line, group);
	for (size_t i = 0; i < count; i++)
		print_member(header, &fields[i]);
	fprintf(file, "};\n\nstatic_assert(sizeof(struct %s%s%s) == %u, \"%s%s%s\");\n",
		header->name, line, group, bytes, header->name, line, group);
	for (size_t i = 0; i < count; i++)
		if (fields[i].type != TB_TYPE_PAD)
			fprintf(file,
				"static_assert(offsetof(struct %s%s%s, %s) == %u, "
				"\"%s%s%s.%s\");\n",
				header->name, line, group, fields[i].name, fields[i].offset,
				header->name, line, group, fields[i].name);
}

static void print_table(const struct header *header, const char *group,
			const struct tb_field *fields, size_t count)
{
	FILE *file = header->file;

	for (size_t i = 0; i < count; i++)
		if (fields[i].type == TB_TYPE_GROUP)
			print_table(header, fields[i].name, fields[i].members,
				    fields[i].member_count);
	fprintf(file, "#define %s_%s%sFIELDS(X)", header->macro, upper(group).text,
		group[0] ? "_" : "");
	for (const struct tb_field *field = fields; field < fields + count; field++)
		if (field->type != TB_TYPE_PAD)
			fprintf(file, " \\\n\tX(%s, TB_TYPE_%s, %u, %u, %u, %u)", field->name,
				upper(tb_type_name(field->type)).text, field->scale, field->offset,
				field->bytes, field->count);
	fputs("\n", file);
}

int header_print(const struct tb_schema *schema, const char *prefix, FILE *file)
{
	struct header header = { .file = file };
	struct upper macro;

	snprintf(header.name, sizeof(header.name), "%s%s", prefix, schema->name);
	macro = upper(header.name);
	memcpy(header.macro, macro.text, sizeof(header.macro));
	print_constants(&header, schema);
	print_scales(&header, "", schema->fields, schema->field_count);
	if (any_optional(schema->fields, schema->field_count))
		fputs("\n/* The null of each optional field, and the test of an element. The test "
		      "of text takes\n * its array, and uses it twice. */\n",
		      file);
	print_nulls(&header, "", schema->fields, schema->field_count);
	print_struct(&header, "", schema->fields, schema->field_count, schema->bytes);
	fputs("static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, \"little-endian\");\n\n"
	      "/* X(name, type, scale, offset, bytes of an element, elements) for each field, with "
	      "types\n * of enum tb_type; offsets of a group's fields are from its element. */\n",
	      file);
	print_table(&header, "", schema->fields, schema->field_count);
	fputs("\n#endif\n", file);
	return ferror(file) ? error_set(EIO, "schema %s: cannot print the header", schema->name)
			    : 0;
}
