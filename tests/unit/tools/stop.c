/* SPDX-License-Identifier: Apache-2.0 */
/* Signals as tickbus cat sees them: SIGHUP reads files again, and never hides a request to stop. */
#include <criterion/criterion.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tools/stop.h"

static bool hangs_up; /* the next read() ends with a hangup */

ssize_t read(int fd, void *into, size_t bytes)
{
	const ssize_t result = syscall(SYS_read, fd, into, bytes);

	if (hangs_up) {
		hangs_up = false;
		raise(SIGHUP);
	}
	return result;
}

static bool readable(int fd)
{
	struct pollfd ready = { .fd = fd, .events = POLLIN };

	return poll(&ready, 1, 0) == 1;
}

Test(stop, hangup_is_reported_once_and_wakes)
{
	const int fd = stop_open();

	cr_assert_geq(fd, 0);
	stop_hangups();
	cr_assert(!stop_hung_up());
	for (int i = 0; i < 3; i++) {
		raise(SIGHUP);
		raise(SIGHUP);
		cr_assert(readable(fd), "the descriptor does not wake");
		cr_assert(stop_hung_up());
		cr_assert(!stop_hung_up(), "a hangup is reported twice");
		cr_assert(!readable(fd), "the descriptor wakes without a signal");
	}
	cr_assert(!stop_asked());
}

Test(stop, hangup_during_a_look_is_reported_by_the_next)
{
	const int fd = stop_open();

	cr_assert_geq(fd, 0);
	stop_hangups();
	raise(SIGHUP);
	hangs_up = true;
	cr_assert(stop_hung_up());
	cr_assert(stop_hung_up(), "the second hangup is lost");
	cr_assert(!stop_hung_up());
	cr_assert(!readable(fd), "the descriptor wakes without a signal");
}

Test(stop, request_to_stop_stays_after_a_hangup)
{
	cr_assert_geq(stop_open(), 0);
	stop_hangups();
	raise(SIGTERM);
	raise(SIGHUP);
	cr_assert(stop_hung_up());
	cr_assert(stop_asked());
}
