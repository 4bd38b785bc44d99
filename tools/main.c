/* SPDX-License-Identifier: Apache-2.0 */
/* tickbus: runs the command that its first argument names. */
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "tools/command.h"
#include "tools/output.h"

static const struct command *const commands[] = {
	&topics_command, &cat_command,   &stat_command,
	&schema_command, &synth_command, &doctor_command
};
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
	output_text(out, "\n  --help      print this help; 'tickbus COMMAND --help' prints a "
			 "command's help\n"
			 "  --version   print the version\n");
}

static int main_wrong(const char *found)
{
	struct output err;

	output_open(&err, 2);
	output_text(&err, "tickbus: found ");
	output_text(&err, found ? found : "nothing");
	output_text(&err, ", expected a command\n");
	usage_print(&err);
	output_close(&err, NULL);
	return COMMAND_USAGE;
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
	if (!word || (strcmp(word, "--help") != 0 && strcmp(word, "--version") != 0))
		return main_wrong(word);
	output_open(&out, 1);
	if (!strcmp(word, "--help"))
		usage_print(&out);
	else
		output_text(&out, "tickbus " TICKBUS_VERSION "\n");
	return output_close(&out, NULL);
}
