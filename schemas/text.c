/* SPDX-License-Identifier: Apache-2.0 */
/* The canonical text, and its fingerprint.
 *
 * The fingerprint is XXH3-64, seed 0, of the canonical text without its `version` and `doc` lines.
 * What remains changes exactly when the meaning of a byte changes. Offsets are left out, since they
 * follow from the types. */
#include "schemas/schema.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <xxhash.h>

#include "bus/error.h"

static void text_doc(FILE *file, const char *indent, const char *doc)
{
	fprintf(file, "%sdoc: \"", indent);
	for (; *doc; doc++) {
		if (*doc == '"' || *doc == '\\')
			fputc('\\', file);
		fputc(*doc, file);
	}
	fputs("\"\n", file);
}

static void text_fields(FILE *file, const char *indent, const struct tb_field *fields, size_t count,
			bool all)
{
	char type[TYPE_TEXT_BYTES], deeper[16];

	snprintf(deeper, sizeof(deeper), "%s    ", indent);
	fprintf(file, "%sfields:\n", indent);
	for (const struct tb_field *field = fields; field < fields + count; field++) {
		fprintf(file, "%s  - type: %s\n", indent, type_format(field, type));
		if (field->type == TB_TYPE_PAD)
			continue;
		fprintf(file, "%sname: %s\n", deeper, field->name);
		if (field->role[0])
			fprintf(file, "%srole: %s\n", deeper, field->role);
		if (field->optional)
			fprintf(file, "%soptional: true\n", deeper);
		if (all && field->doc[0])
			text_doc(file, deeper, field->doc);
		if (field->type == TB_TYPE_GROUP)
			text_fields(file, deeper, field->members, field->member_count, all);
	}
}

/* all: with the lines that change no meaning. NULL: no memory. */
static char *text_print(const struct tb_schema *schema, bool all, size_t *length)
{
	char *text = NULL;
	FILE *file = open_memstream(&text, length);

	if (!file)
		return NULL;
	fprintf(file, "name: %s\n", schema->name);
	if (all)
		fprintf(file, "version: %u\n", schema->version);
	if (all && schema->doc[0])
		text_doc(file, "", schema->doc);
	text_fields(file, "", schema->fields, schema->field_count, all);
	if (fclose(file) == 0)
		return text;
	free(text);
	return NULL;
}

int text_make(struct tb_schema *schema)
{
	size_t length;
	char *meaning = text_print(schema, false, &length);

	if (!meaning)
		return error_set(ENOMEM, "schema %s: no memory for its text", schema->name);
	schema->fingerprint = XXH3_64bits(meaning, length);
	free(meaning);
	schema->text = text_print(schema, true, &schema->text_length);
	if (!schema->text)
		return error_set(ENOMEM, "schema %s: no memory for its text", schema->name);
	return 0;
}
