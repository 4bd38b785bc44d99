/* SPDX-License-Identifier: Apache-2.0 */
/* Runs while tickbus is built: prints the C header of a built-in schema, or the table of them all.
 *
 *   generate header FILE.yaml
 *   generate table FILE.yaml... */
#include <stdio.h>
#include <string.h>

#include "schemas/read.h"
#include "schemas/schema.h"

static int generate_header(const char *path)
{
	struct tb_schema *schema;
	int result = read_file(&schema, path);

	if (result < 0)
		return result;
	result = header_print(schema, "tb_", stdout);
	tb_schema_free(schema);
	return result;
}

/* Numbers, not strings: ISO C promises no string of more than 4,095 characters. */
static void generate_text(const struct tb_schema *schema, int index)
{
	printf("static const char text_%d[] = {", index);
	for (size_t i = 0; i < schema->text_length; i++)
		printf("%s%d,", i % 16 ? " " : "\n\t", schema->text[i]);
	puts("\n};\n");
}

static int generate_table(char **paths, int count)
{
	struct tb_schema *schema;
	char names[4096];
	size_t used = 0;

	puts("#include \"schemas/builtin.h\"\n");
	for (int i = 0; i < count; i++) {
		int result = read_file(&schema, paths[i]);

		if (result < 0)
			return result;
		generate_text(schema, i);
		used += (size_t)snprintf(names + used, sizeof(names) - used, "\t\"%s\",\n",
					 schema->name);
		tb_schema_free(schema);
	}
	printf("const char *const builtin_names[] = {\n%s\tNULL,\n};\n\n", names);
	puts("const struct builtin builtin_texts[] = {");
	for (int i = 0; i < count; i++)
		printf("\t{ text_%d, sizeof(text_%d) },\n", i, i);
	puts("};");
	return 0;
}

int main(int argc, char **argv)
{
	int result;

	if (argc == 3 && !strcmp(argv[1], "header")) {
		result = generate_header(argv[2]);
	} else if (argc >= 3 && argc <= 32 && !strcmp(argv[1], "table")) {
		result = generate_table(argv + 2, argc - 2);
	} else {
		fputs("usage: generate header FILE | generate table FILE...\n", stderr);
		return 2;
	}
	if (result == 0 && fflush(stdout) == 0)
		return 0;
	fprintf(stderr, "%s\n", tb_error());
	return 1;
}
