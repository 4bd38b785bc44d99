/* SPDX-License-Identifier: Apache-2.0 */
/* What a command of tickbus is, how it takes its options, and how it ends.
 *
 * A command's options are a table: what getopt_long accepts and what --help prints are the same
 * rows. Every command has --help beside its own. */
#ifndef TICKBUS_TOOLS_COMMAND_H
#define TICKBUS_TOOLS_COMMAND_H

#include <stdint.h>

#include "tickbus/schema.h"
#include "tickbus/ticket.h"

enum command_exit {
	COMMAND_DONE = 0,
	COMMAND_FAILED = 1,
	COMMAND_USAGE = 2,
	COMMAND_REFUSED = 3,      /* permission, unknown topic, schema mismatch, version */
	COMMAND_NO_PUBLISHER = 4, /* nobody listens there, or nobody answers */
};

struct command_option {
	const char *name;
	const char *argument; /* what --help calls it; NULL: there is none */
	const char *words;
	char letter; /* what command_next() returns for it; no short option */
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
	const char *value; /* of the option that was returned last */
	char **operands;   /* when the options are over, ended by NULL */
	int status;        /* when command_next() returned below 0 */
};

extern const struct command topics_command, cat_command, stat_command, schema_command,
	synth_command, doctor_command;

/* The next option's letter; 0 when they are over and the operands are there; below 0 when the call
 * is over: help was printed, or the usage is wrong. */
int command_next(struct command_call *call);

/* Says what is wrong, and how it is used, on standard error. Returns COMMAND_USAGE. */
int command_wrong(const struct command_call *call, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* The value as a whole number within bounds: 0, or COMMAND_USAGE. */
int command_number(const struct command_call *call, const char *option, uint64_t low, uint64_t high,
		   uint64_t *number);

/* The value as a format: 0, or COMMAND_USAGE. */
int command_format(const struct command_call *call, enum tb_format *format);

/* The ticket in the file that the value names: 0, or COMMAND_FAILED with words. */
int command_ticket(const struct command_call *call, uint8_t ticket[TB_TICKET_BYTES]);

/* For whoever asks a publisher. What is sent over a network may be lost, and is sent again after a
 * while: the default has room for that. */
#define COMMAND_TIMEOUT_MS 3000
#define COMMAND_TIMEOUT                                                                            \
	{                                                                                          \
		"timeout", "MS", "how long the publisher may take to answer (3000)", 'm'           \
	}
/* The value in milliseconds: 0, or COMMAND_USAGE. */
int command_timeout(const struct command_call *call, uint32_t *timeout_ms);

/* For a command that looks at a bus, with no options but command_look_options: 0, or -1 with
 * call->status. */
struct command_look {
	enum tb_format format;
	uint32_t timeout_ms;
	const uint8_t *ticket; /* NULL: none */
	uint8_t shown[TB_TICKET_BYTES];
};
int command_look(struct command_call *call, struct command_look *look);
extern const struct command_option command_look_options[];

/* Says tb_error() on standard error and returns the exit status that the -errno means. */
int command_failed(const struct command *command, int result);

#endif
