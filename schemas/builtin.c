/* SPDX-License-Identifier: Apache-2.0 */
/* The built-in schemas. Their texts are part of the library, so no file needs to be installed. */
#include "schemas/builtin.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "bus/error.h"
#include "schemas/read.h"
#include "schemas/schema.h"

TB_API const char *const *tb_schema_builtins(void)
{
	return builtin_names;
}

static const struct builtin *builtin_find(const char *name)
{
	for (size_t i = 0; builtin_names[i]; i++)
		if (!strcmp(builtin_names[i], name))
			return &builtin_texts[i];
	return NULL;
}

static int builtin_not_found(const char *path, int result)
{
	char names[512] = "";
	size_t used = 0;

	for (size_t i = 0; builtin_names[i] && used < sizeof(names); i++)
		used += (size_t)snprintf(names + used, sizeof(names) - used, "%s%s", i ? ", " : "",
					 builtin_names[i]);
	error_set(-result, "found no file of this name, expected a file or a built-in schema: %s",
		  names);
	return error_prefix(result, "%s: ", path);
}

TB_API int tb_schema_load(struct tb_schema **schema, const char *name_or_path)
{
	const struct builtin *builtin;
	int result;

	*schema = NULL;
	if (!name_or_path)
		return error_set(EINVAL,
				 "schema: found no name, expected a built-in schema or a path");
	builtin = builtin_find(name_or_path);
	if (builtin)
		return tb_schema_parse(schema, builtin->text, builtin->length, name_or_path);
	result = read_file(schema, name_or_path);
	return result == -ENOENT ? builtin_not_found(name_or_path, result) : result;
}

/* Structs of built-in schemas have the prefix "tb_"; structs of a user's schema have no prefix. */
TB_API char *tb_schema_header(const struct tb_schema *schema)
{
	const struct builtin *builtin;
	char *text = NULL;
	size_t length;
	bool is_builtin;
	FILE *file;
	int result;

	if (!schema) {
		error_null("schema");
		return NULL;
	}
	builtin = builtin_find(schema->name);
	is_builtin = builtin && builtin->length == schema->text_length &&
		     !memcmp(builtin->text, schema->text, schema->text_length);
	file = open_memstream(&text, &length);
	if (!file) {
		error_set(ENOMEM, "schema %s: no memory for its header", schema->name);
		return NULL;
	}
	result = header_print(schema, is_builtin ? "tb_" : "", file);
	if (fclose(file) == 0 && result == 0)
		return text;
	free(text);
	error_set(ENOMEM, "schema %s: no memory for its header", schema->name);
	return NULL;
}
