/* SPDX-License-Identifier: Apache-2.0 */
/* tickbus schema: checks a schema, prints it, or prints a C header for it. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/command.h"
#include "tools/output.h"

static void check(const struct tb_schema *schema, struct output *out)
{
	char line[256];
	size_t fields;

	tb_schema_fields(schema, &fields);
	snprintf(line, sizeof(line),
		 "%s: version %u, %zu fields, %zu bytes, fingerprint %016" PRIx64 "\n",
		 tb_schema_name(schema), tb_schema_version(schema), fields, tb_schema_bytes(schema),
		 tb_schema_fingerprint(schema));
	output_text(out, line);
}

static void header(const struct tb_schema *schema, struct output *out)
{
	char *text = tb_schema_header(schema);

	if (text)
		output_text(out, text);
	else
		out->error = ENOMEM;
	free(text);
}

static void print(const struct tb_schema *schema, struct output *out)
{
	size_t length;

	output_text(out, tb_schema_text(schema, &length));
}

static const struct action {
	const char *word;
	void (*act)(const struct tb_schema *schema, struct output *out);
} actions[] = { { "check", check }, { "header", header }, { "print", print } };

static int schema_run(struct command_call *call)
{
	const struct action *action = NULL;
	struct tb_schema *schema;
	struct output out;
	int result;

	if (command_next(call) < 0)
		return call->status;
	for (size_t i = 0; i < sizeof(actions) / sizeof(actions[0]); i++)
		if (!strcmp(call->operands[0], actions[i].word))
			action = &actions[i];
	if (!action)
		return command_wrong(call, "found \"%s\", expected check, header or print",
				     call->operands[0]);
	result = tb_schema_load(&schema, call->operands[1]);
	if (result < 0) {
		/* One line per error, each begins with file and line: no prefix. */
		fprintf(stderr, "%s\n", tb_error());
		return COMMAND_FAILED;
	}
	output_open(&out, 1);
	action->act(schema, &out);
	tb_schema_free(schema);
	return output_close(&out, call->command->name);
}

const struct command schema_command = {
	.name = "schema",
	.operands = "check|header|print FILE|BUILTIN",
	.words = "check a schema, print it, or print a C header for it",
	.options = (const struct command_option[]){ { 0 } },
	.operands_min = 2,
	.operands_max = 2,
	.run = schema_run,
};
