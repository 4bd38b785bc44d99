/* SPDX-License-Identifier: Apache-2.0 */
/* Delta debugging: runs of steps are taken out, at first half of the list, then shorter runs. */
#include "tests/simulation/shorten.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define TRIAL_SECONDS 10

static bool fails(const struct history *history)
{
	const pid_t child = fork();
	int status;

	if (child < 0)
		abort();
	if (child == 0) {
		alarm(TRIAL_SECONDS);
		if (!freopen("/dev/null", "w", stderr))
			_exit(2);
		_exit(history_run(history, false) ? 0 : 1);
	}
	if (waitpid(child, &status, 0) < 0)
		abort();
	return status != 0;
}

static struct history without(const struct history *history, size_t at, size_t count)
{
	struct history rest = *history;

	memmove(&rest.steps[at], &rest.steps[at + count],
		(rest.count - at - count) * sizeof(rest.steps[0]));
	rest.count -= count;
	return rest;
}

/* Returns whether a run of this length could be taken out. */
static bool take_out(struct history *history, size_t length)
{
	bool taken = false;

	for (size_t at = 0; at < history->count;) {
		const size_t left = history->count - at;
		const struct history rest = without(history, at, length < left ? length : left);

		if (fails(&rest)) {
			*history = rest;
			taken = true;
		} else {
			at += length;
		}
	}
	return taken;
}

void shorten(struct history *history)
{
	for (size_t length = history->count / 2; length > 1; length /= 2)
		take_out(history, length);
	while (take_out(history, 1))
		;
}
