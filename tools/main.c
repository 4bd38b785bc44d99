/* SPDX-License-Identifier: Apache-2.0 */
/* tickbus: runs the command that its first argument names. */
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "tickbus/version.h"
#include "tools/command.h"
#include "tools/output.h"

static const struct command *const commands[] = { &topics_command, &cat_command,    &get_command,
						  &stat_command,   &schema_command, &synth_command,
						  &doctor_command };
#define COMMANDS (sizeof(commands) / sizeof(commands[0]))

/* Without this a socket would take the number of a closed standard output and receive the rows. A
 * write to a read-only descriptor fails like a write to a closed descriptor. */
static void standard_descriptors(void)
{
	for (int fd = 0; fd <= 2; fd++)
		if (fcntl(fd, F_GETFD) < 0)
			open("/dev/null", O_RDONLY);
}

static void usage_print(struct output *out)
{
	output_text(out, "usage: tickbus COMMAND [OPTION...] ...\n\n");
	for (size_t i = 0; i < COMMANDS; i++) {
		char line[128];

		snprintf(line, sizeof(line), "  %-8s %s\n", commands[i]->name, commands[i]->words);
		output_text(out, line);
	}
	output_text(out, "\nAn address is shm:NAME or rdma:HOST:PORT. fault:FAULTS/ADDRESS "
			 "rehearses faults. "
			 "tickbus(1) describes both.\n");
	output_text(out, "\n  --help, -h      print this help; 'tickbus COMMAND --help' prints a "
			 "command's help\n"
			 "  --version, -V   print the version\n");
}

/* A wrong word gets one line. Without a word, the caller asks what there is. */
static int main_wrong(const char *found)
{
	struct output err;

	output_open(&err, 2);
	if (!found) {
		usage_print(&err);
	} else {
		output_text(&err, "tickbus: found \"");
		output_value(&err, TB_FORMAT_TEXT, found);
		output_text(&err, "\", expected a command:");
		for (size_t i = 0; i < COMMANDS; i++) {
			output_text(&err, i ? ", " : " ");
			output_text(&err, commands[i]->name);
		}
		output_text(&err, "; 'tickbus --help' describes them\n");
	}
	output_close(&err, NULL);
	return COMMAND_USAGE;
}

static bool is_option(const char *word, const char *name, const char *letter)
{
	return !strcmp(word, name) || !strcmp(word, letter);
}

int main(int argc, char **argv)
{
	const char *word = argc > 1 ? argv[1] : NULL;
	struct output out;

	standard_descriptors();
	signal(SIGPIPE, SIG_IGN); /* write() reports both as errors */
	signal(SIGXFSZ, SIG_IGN);
	for (size_t i = 0; word && i < COMMANDS; i++)
		if (!strcmp(word, commands[i]->name)) {
			struct command_call call = { .command = commands[i],
						     .argc = argc - 1,
						     .argv = argv + 1 };

			return commands[i]->run(&call);
		}
	output_open(&out, 1);
	if (word && is_option(word, "--help", "-h"))
		usage_print(&out);
	else if (word && is_option(word, "--version", "-V"))
		output_text(&out, "tickbus " TB_VERSION "\n");
	else
		return main_wrong(word);
	return output_close(&out, NULL);
}
