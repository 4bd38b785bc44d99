/* SPDX-License-Identifier: Apache-2.0 */
/* A command of tickbus: its options, its operands and its exit status.
 *
 * A command's options are a table. getopt_long and --help use the same rows. Every command also has
 * --help, -h, --version and -V. */
#ifndef TICKBUS_TOOLS_COMMAND_H
#define TICKBUS_TOOLS_COMMAND_H

#include <stdbool.h>
#include <stdint.h>

#include "tickbus/schema.h"
#include "tickbus/ticket.h"

enum command_exit {
	COMMAND_DONE = 0,
	COMMAND_FAILED = 1,
	COMMAND_USAGE = 2,
	COMMAND_REFUSED = 3,      /* permission, unknown topic, schema, version, last values */
	COMMAND_NO_PUBLISHER = 4, /* no publisher listens, or it does not answer */
	COMMAND_NO_VALUE = 5,     /* some instruments are unknown or have no value */
};

struct command_option {
	const char *name;
	const char *argument; /* its name in --help; NULL: no argument */
	const char *words;
	char letter; /* command_next() returns it; not a short option */
};

struct command_call;

struct command {
	const char *name;
	const char *operands;                 /* as in the usage line */
	const char *words;                    /* one line */
	const struct command_option *options; /* ended by a row without a name */
	int operands_min, operands_max;
	int (*run)(struct command_call *call); /* the exit status */
};

/* One call of a command from the shell. */
struct command_call {
	const struct command *command;
	int argc;
	char **argv;       /* argv[0] is the command's name */
	const char *value; /* of the last returned option */
	char **operands;   /* after the last option; NULL-terminated */
	int status;        /* valid if command_next() returned < 0 */
};

extern const struct command topics_command, cat_command, get_command, stat_command, schema_command,
	synth_command, doctor_command;

/* Returns the next option's letter. 0: no more options, the operands are valid. Below 0: exit with
 * call->status; help was printed or the usage is wrong. */
int command_next(struct command_call *call);

/* Prints the error and how to get help on standard error, as one line. Returns COMMAND_USAGE. */
int command_wrong(const struct command_call *call, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* The value as a whole number within bounds: 0, or COMMAND_USAGE. */
int command_number(const struct command_call *call, const char *option, uint64_t low, uint64_t high,
		   uint64_t *number);

/* The value as a format: 0, or COMMAND_USAGE. */
int command_format(const struct command_call *call, enum tb_format *format);

/* --spreadsheet: makes CSV safe to open in a spreadsheet. 0, or COMMAND_USAGE for other formats. */
#define COMMAND_SPREADSHEET                                                                        \
	{                                                                                          \
		"spreadsheet", NULL, "CSV: put ' before text that a spreadsheet would run", 'p'    \
	}
int command_spreadsheet(const struct command_call *call, enum tb_format *format);

/* Reads the ticket from the file in the value: 0, or COMMAND_FAILED with a message. */
int command_ticket(const struct command_call *call, uint8_t ticket[TB_TICKET_BYTES]);

/* For commands that connect to a publisher. A lost request is sent again after a while; the default
 * has room for that. */
#define COMMAND_TIMEOUT_MS 3000
#define COMMAND_TIMEOUT                                                                            \
	{                                                                                          \
		"timeout", "MS", "answer timeout in ms, 1 to 60000 (default 3000)", 'm'            \
	}
/* The value in milliseconds: 0, or COMMAND_USAGE. */
int command_timeout(const struct command_call *call, uint32_t *timeout_ms);

/* The options of commands that inspect a bus. */
#define COMMAND_LOOK_OPTIONS                                                                       \
	{ "format", "text|csv|json", "output format (default text)", 'f' }, COMMAND_SPREADSHEET,   \
		{ "ticket", "FILE", "use the ticket in this file", 't' }, COMMAND_TIMEOUT

struct command_look {
	enum tb_format format;
	bool spreadsheet;
	uint32_t timeout_ms;
	const uint8_t *ticket; /* NULL: no ticket */
	uint8_t shown[TB_TICKET_BYTES];
};
/* For a command that has only these options: 0, or -1 with call->status. */
int command_look(struct command_call *call, struct command_look *look);
/* For a command with more options: takes an option, as a status. Then the check of all of them: 0,
 * or -1 with call->status. */
int command_look_take(const struct command_call *call, struct command_look *look, int letter);
int command_look_check(struct command_call *call, struct command_look *look);
extern const struct command_option command_look_options[];

/* The name of a user id, its number if it has no name, or "" if it is negative. */
#define COMMAND_USER_BYTES 64
const char *command_user(int64_t user, char name[COMMAND_USER_BYTES]);

/* Prints tb_error() on standard error. Returns the exit status for the -errno. */
int command_failed(const struct command *command, int result);
/* The exit status alone. */
int command_status(int result);

#endif
