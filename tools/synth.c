/* SPDX-License-Identifier: Apache-2.0 */
/* tickbus synth: writes a synthetic trading day to a file. */
#include <errno.h>
#include <stdio.h>

#include "publisher/feeds/synthetic/synthetic.h"
#include "tickbus/error.h"
#include "tools/command.h"

#define SEED 1 /* pubd's default */

static int option_take(const struct command_call *call, struct synthetic_settings *settings,
		       int letter)
{
	uint64_t number;
	int status;

	switch (letter) {
	case 's':
		return command_number(call, "seed", 0, UINT64_MAX, &settings->seed);
	case 'm':
		return command_number(call, "messages", 1, UINT64_MAX, &settings->messages);
	case 't':
		return command_number(call, "seconds", 1, SYNTHETIC_DAY_SECONDS,
				      &settings->seconds);
	case 'r':
		return command_number(call, "rate", 1, SYNTHETIC_RATE_MAX, &settings->rate);
	case 'y':
		status = command_number(call, "symbols", 1, SYNTHETIC_SYMBOLS_MAX, &number);
		if (status == 0)
			settings->symbols = (uint32_t)number;
		return status;
	default:
		status = command_number(call, "burst", SYNTHETIC_BURST_MIN, SYNTHETIC_BURST_MAX,
					&number);
		if (status == 0)
			settings->burst = (uint32_t)number;
		return status;
	}
}

static int synth_run(struct command_call *call)
{
	struct synthetic_settings settings = { .seed = SEED };
	int letter, result;

	while ((letter = command_next(call)) > 0)
		if (option_take(call, &settings, letter) != 0)
			return COMMAND_USAGE;
	if (letter < 0)
		return call->status;
	if (!settings.messages == !settings.seconds)
		return command_wrong(call, "found %s, expected either --messages or --seconds",
				     settings.messages ? "both limits" : "no limit");
	result = synthetic_check(&settings);
	if (result == 0)
		result = synthetic_write(&settings, call->operands[0]);
	if (result == 0)
		return COMMAND_DONE;
	fprintf(stderr, "tickbus synth: %s\n", tb_error());
	return result == -EINVAL ? COMMAND_USAGE : COMMAND_FAILED;
}

static const struct command_option options[] = {
	{ "messages", "N", "number of messages", 'm' },
	{ "seconds", "N", "seconds of trading, 1 to 23400", 't' },
	{ "seed", "N", "random seed (default 1)", 's' },
	{ "symbols", "N", "number of symbols, 1 to 65535 (default 8000)", 'y' },
	{ "rate", "N", "mean messages per second, 1 to 10000000 (default 100000)", 'r' },
	{ "burst", "N", "ratio of peak to mean rate, 10 to 100 (default 20)", 'b' },
	{ 0 },
};

const struct command synth_command = {
	.name = "synth",
	.operands = "FILE[.zst]",
	.words = "write a synthetic trading day to a file, as Nasdaq ITCH 5.0",
	.options = options,
	.operands_min = 1,
	.operands_max = 1,
	.run = synth_run,
};
