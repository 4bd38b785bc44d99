/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/stop.h"

#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <unistd.h>

static volatile sig_atomic_t asked, hung_up;
static int event_fd = -1;

static void on_signal(int number)
{
	const int kept = errno;
	const uint64_t one = 1;

	(void)number;
	asked = 1;
	signal(SIGINT, SIG_DFL); /* SIGTERM may follow SIGINT */
	signal(SIGTERM, SIG_DFL);
	if (write(event_fd, &one, sizeof(one)) < 0)
		asked = 1; /* the counter is full, so readable */
	errno = kept;
}

static void on_hangup(int number)
{
	const int kept = errno;
	const uint64_t one = 1;

	(void)number;
	hung_up = 1;
	if (write(event_fd, &one, sizeof(one)) < 0)
		hung_up = 1; /* the counter is full, so readable */
	errno = kept;
}

int stop_open(void)
{
	struct sigaction action = { .sa_handler = on_signal };

	event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (event_fd < 0)
		return -errno;
	if (sigaction(SIGINT, &action, NULL) < 0 || sigaction(SIGTERM, &action, NULL) < 0)
		return -errno;
	return event_fd;
}

bool stop_asked(void)
{
	return asked != 0;
}

void stop_hangups(void)
{
	const struct sigaction action = { .sa_handler = on_hangup };

	sigaction(SIGHUP, &action, NULL); /* fails only for a signal that does not exist */
}

/* The flag is cleared first: a signal that comes meanwhile sets it again, so the caller comes back.
 * Else the descriptor could stay readable without a flag, and a loop that waits for it would spin.
 */
bool stop_hung_up(void)
{
	uint64_t count;

	if (!hung_up)
		return false;
	hung_up = 0;
	if (read(event_fd, &count, sizeof(count)) < 0)
		count = 0; /* an earlier call took it */
	return true;
}
