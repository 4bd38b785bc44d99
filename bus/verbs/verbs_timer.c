/* SPDX-License-Identifier: Apache-2.0 */
#include "bus/verbs/verbs_timer.h"

#include <errno.h>
#include <stdint.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "bus/clock.h"

#define PERIOD_MS 500

static const struct timespec half_second = { 0, PERIOD_MS * 1000000L };

int verbs_timer_open(struct verbs_timer *timer)
{
	const struct itimerspec twice_a_second = { half_second, half_second };

	timer->soon = false;
	timer->due_ms = clock_ms() + PERIOD_MS;
	timer->fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
	if (timer->fd < 0 || timerfd_settime(timer->fd, 0, &twice_a_second, NULL) < 0)
		return -errno;
	return 0;
}

void verbs_timer_soon(struct verbs_timer *timer)
{
	const struct itimerspec now = { half_second, { 0, 1 } };

	timer->soon = true;
	timerfd_settime(timer->fd, 0, &now, NULL);
}

enum verbs_timer_due verbs_timer_take(struct verbs_timer *timer)
{
	const uint64_t now = clock_ms();
	const bool early = timer->soon && now < timer->due_ms;
	uint64_t ticks;

	if (read(timer->fd, &ticks, sizeof(ticks)) < 0)
		return VERBS_TIMER_NOT_DUE;
	timer->soon = false;
	if (early)
		return VERBS_TIMER_GO_ON;
	timer->due_ms = now + PERIOD_MS;
	return VERBS_TIMER_DUE;
}

void verbs_timer_close(struct verbs_timer *timer)
{
	if (timer->fd >= 0)
		close(timer->fd);
	timer->fd = -1;
}
