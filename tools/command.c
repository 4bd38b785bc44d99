/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/command.h"

#include <errno.h>
#include <getopt.h>
#include <pwd.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tickbus/error.h"
#include "tickbus/version.h"
#include "tools/output.h"

#define OPTIONS_MAX    32
#define LETTER_HELP    'h'
#define LETTER_VERSION 'V'
#define HELP_INDENT    36
#define TIMEOUT_MS_MAX 60000 /* the library's limit */

static void help_option(struct output *out, const char *name, const char *argument,
			const char *words)
{
	char left[128];

	snprintf(left, sizeof(left), "  --%s%s%s", name, argument ? "=" : "",
		 argument ? argument : "");
	output_text(out, left);
	for (size_t at = strlen(left); at < HELP_INDENT - 1; at++)
		output_byte(out, ' ');
	output_byte(out, ' ');
	output_text(out, words);
	output_byte(out, '\n');
}

static int help_print(const struct command *command)
{
	struct output out;

	output_open(&out, 1);
	output_text(&out, "usage: tickbus ");
	output_text(&out, command->name);
	output_text(&out, " [OPTION...] ");
	output_text(&out, command->operands);
	output_byte(&out, '\n');
	output_text(&out, command->words);
	output_text(&out, "\n\n");
	for (const struct command_option *option = command->options; option->name; option++)
		help_option(&out, option->name, option->argument, option->words);
	help_option(&out, "help", NULL, "print this help (also -h)");
	help_option(&out, "version", NULL, "print the version (also -V)");
	return output_close(&out, command->name);
}

static int version_print(const struct command *command)
{
	struct output out;

	output_open(&out, 1);
	output_text(&out, "tickbus " TB_VERSION "\n");
	return output_close(&out, command->name);
}

int command_wrong(const struct command_call *call, const char *format, ...)
{
	const struct command *command = call->command;
	va_list args;

	fprintf(stderr, "tickbus %s: ", command->name);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fprintf(stderr, "; 'tickbus %s --help' shows the usage\n", command->name);
	return COMMAND_USAGE;
}

static int operands_check(struct command_call *call)
{
	const int count = call->argc - optind;

	call->operands = call->argv + optind;
	if (count < call->command->operands_min)
		call->status = command_wrong(call, "operands are missing, expected %s",
					     call->command->operands);
	else if (count > call->command->operands_max)
		call->status = command_wrong(call, "found \"%s\" after the operands, expected %s",
					     call->operands[call->command->operands_max],
					     call->command->operands);
	else
		return 0;
	return -1;
}

int command_next(struct command_call *call)
{
	struct option table[OPTIONS_MAX + 3] = { 0 };
	int count = 0, letter;

	for (const struct command_option *o = call->command->options; o->name; o++, count++)
		table[count] =
			(struct option){ .name = o->name,
					 .has_arg = o->argument ? required_argument : no_argument,
					 .val = o->letter };
	table[count++] = (struct option){ .name = "help", .val = LETTER_HELP };
	table[count] = (struct option){ .name = "version", .val = LETTER_VERSION };
	opterr = 0;
	letter = getopt_long(call->argc, call->argv, ":hV", table, NULL);
	call->value = optarg;
	switch (letter) {
	case -1:
		return operands_check(call);
	case LETTER_HELP:
		call->status = help_print(call->command);
		return -1;
	case LETTER_VERSION:
		call->status = version_print(call->command);
		return -1;
	case ':':
		call->status =
			command_wrong(call, "%s: the value is missing", call->argv[optind - 1]);
		return -1;
	case '?':
		if (optopt && !strchr(call->argv[optind - 1], '=') &&
		    strncmp(call->argv[optind - 1], "--", 2) != 0)
			call->status = command_wrong(call, "unknown option -%c", optopt);
		else
			call->status =
				command_wrong(call, "unknown option %s", call->argv[optind - 1]);
		return -1;
	default:
		return letter;
	}
}

int command_number(const struct command_call *call, const char *option, uint64_t low, uint64_t high,
		   uint64_t *number)
{
	const char *text = call->value;
	char *end = NULL;
	unsigned long long value;

	errno = 0;
	value = strtoull(text, &end, 10);
	if (*text >= '0' && *text <= '9' && *end == '\0' && errno == 0 && value >= low &&
	    value <= high) {
		*number = value;
		return 0;
	}
	return command_wrong(call, "--%s: found \"%s\", expected a whole number from %llu to %llu",
			     option, text, (unsigned long long)low, (unsigned long long)high);
}

int command_format(const struct command_call *call, enum tb_format *format)
{
	if (!strcmp(call->value, "text"))
		*format = TB_FORMAT_TEXT;
	else if (!strcmp(call->value, "csv"))
		*format = TB_FORMAT_CSV;
	else if (!strcmp(call->value, "json"))
		*format = TB_FORMAT_JSON;
	else
		return command_wrong(call, "--format: found \"%s\", expected text, csv or json",
				     call->value);
	return 0;
}

int command_timeout(const struct command_call *call, uint32_t *timeout_ms)
{
	uint64_t number = 0;
	int status = command_number(call, "timeout", 1, TIMEOUT_MS_MAX, &number);

	if (status == 0)
		*timeout_ms = (uint32_t)number;
	return status;
}

int command_ticket(const struct command_call *call, uint8_t ticket[TB_TICKET_BYTES])
{
	if (tb_ticket_load(call->value, ticket) == 0)
		return 0;
	fprintf(stderr, "tickbus %s: --ticket: %s\n", call->command->name, tb_error());
	return COMMAND_FAILED;
}

int command_spreadsheet(const struct command_call *call, enum tb_format *format)
{
	if (*format != TB_FORMAT_CSV)
		return command_wrong(call, "found --spreadsheet, expected --format csv with it");
	*format = TB_FORMAT_SPREADSHEET;
	return 0;
}

const struct command_option command_look_options[] = { COMMAND_LOOK_OPTIONS, { 0 } };

int command_look_take(const struct command_call *call, struct command_look *look, int letter)
{
	switch (letter) {
	case 'p':
		look->spreadsheet = true;
		return 0;
	case 't':
		look->ticket = look->shown;
		return command_ticket(call, look->shown);
	case 'm':
		return command_timeout(call, &look->timeout_ms);
	default:
		return command_format(call, &look->format);
	}
}

int command_look(struct command_call *call, struct command_look *look)
{
	int letter;

	*look = (struct command_look){ .format = TB_FORMAT_TEXT, .timeout_ms = COMMAND_TIMEOUT_MS };
	while ((letter = command_next(call)) > 0) {
		call->status = command_look_take(call, look, letter);
		if (call->status != 0)
			return -1;
	}
	return letter < 0 ? letter : command_look_check(call, look);
}

int command_look_check(struct command_call *call, struct command_look *look)
{
	if (look->spreadsheet)
		call->status = command_spreadsheet(call, &look->format);
	return call->status ? -1 : 0;
}

const char *command_user(int64_t user, char name[COMMAND_USER_BYTES])
{
	const struct passwd *entry = user < 0 ? NULL : getpwuid((uid_t)user);

	name[0] = '\0';
	if (entry)
		snprintf(name, COMMAND_USER_BYTES, "%s", entry->pw_name);
	else if (user >= 0)
		snprintf(name, COMMAND_USER_BYTES, "%u", (unsigned int)user);
	return name;
}

int command_failed(const struct command *command, int result)
{
	fprintf(stderr, "tickbus %s: %s\n", command->name, tb_error());
	return command_status(result);
}

int command_status(int result)
{
	switch (-result) {
	case ECONNREFUSED:
	case ECONNRESET:
	case ETIMEDOUT:
		return COMMAND_NO_PUBLISHER;
	case EACCES:
	case EPERM:
	case ENOENT:
	case EPROTO:
	case EUSERS:
	case EOPNOTSUPP: /* a topic without last values */
		return COMMAND_REFUSED;
	case EINVAL:
		return COMMAND_USAGE;
	default:
		return COMMAND_FAILED;
	}
}
