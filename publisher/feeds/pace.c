/* SPDX-License-Identifier: Apache-2.0 */
#include "publisher/feeds/pace.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "bus/clock.h"
#include "bus/error.h"

#define SPIN_NS      10000          /* of PACE_BACKOFF: as late as a sleep often ends */
#define SPIN_SHARE   16             /* at most 1/16 of all time is spun */
#define SLEEP_MIN_NS 20000          /* the shortest sleep: more messages are due after it */
#define SLEEP_MAX_NS 3600000000000u /* a longer wait calls ppoll again */

int pace_open(struct pace *pace, uint32_t speed_milli)
{
	memset(pace, 0, sizeof(*pace));
	pace->speed_milli = speed_milli;
	pace->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (pace->event_fd < 0)
		return error_set(errno, "cannot create an eventfd: %s", strerror(errno));
	return 0;
}

void pace_close(struct pace *pace)
{
	if (pace->event_fd >= 0)
		close(pace->event_fd);
	pace->event_fd = -1;
}

static bool is_near(uint64_t market_ns, uint64_t last_ns)
{
	return market_ns <= last_ns + PACE_JUMP_NS && last_ns <= market_ns + PACE_JUMP_NS;
}

static void begin(struct pace *pace, uint64_t market_ns)
{
	pace->now.market_ns = market_ns;
	pace->now.own_ns = clock_ns();
}

/* A single message with a wrong time is a jump there and a jump back. */
static void jump(struct pace *pace, uint64_t market_ns)
{
	const bool returns = pace->jumped && is_near(market_ns, pace->before.last_ns);

	pace->jumped = !returns;
	if (returns) {
		pace->now = pace->before;
		return;
	}
	pace->jumps_ahead += market_ns > pace->now.last_ns;
	pace->before = pace->now;
	begin(pace, market_ns);
}

uint64_t pace_due(struct pace *pace, uint64_t market_ns)
{
	if (pace->speed_milli == 0)
		return 0;
	if (!pace->begun) {
		pace->begun = true;
		pace->jumped = false;
		begin(pace, market_ns);
	} else if (!is_near(market_ns, pace->now.last_ns)) {
		jump(pace, market_ns);
	} else {
		pace->jumped = false;
	}
	pace->now.last_ns = market_ns;
	if (market_ns <= pace->now.market_ns)
		return 0;
	/* A day's nanoseconds times 1,000 fit in 64 bits. */
	return pace->now.own_ns + (market_ns - pace->now.market_ns) * 1000 / pace->speed_milli;
}

static void sleep_until(struct pace *pace, uint64_t wake_ns, uint64_t now_ns)
{
	struct pollfd interrupt = { .fd = pace->event_fd, .events = POLLIN };
	uint64_t left_ns = wake_ns - now_ns;
	struct timespec left;

	if (left_ns > SLEEP_MAX_NS)
		left_ns = SLEEP_MAX_NS;
	left.tv_sec = (time_t)(left_ns / 1000000000u);
	left.tv_nsec = (long)(left_ns % 1000000000u);
	ppoll(&interrupt, 1, &left, NULL);
}

/* When a wait by PACE_BACKOFF stops sleeping. */
static uint64_t backoff(struct pace *pace, uint64_t due_ns, uint64_t now_ns)
{
	if (now_ns - pace->spun_ns < SPIN_SHARE * SPIN_NS)
		return due_ns > now_ns + SLEEP_MIN_NS ? due_ns : now_ns + SLEEP_MIN_NS;
	pace->spun_ns = due_ns;
	return due_ns - SPIN_NS;
}

bool pace_until(struct pace *pace, enum pace_wait how, uint64_t due_ns)
{
	uint64_t now_ns = clock_ns(), wake_ns = due_ns;

	if (how == PACE_SPIN)
		wake_ns = 0;
	else if (how == PACE_BACKOFF && now_ns < due_ns)
		wake_ns = backoff(pace, due_ns, now_ns);
	while (!atomic_load_explicit(&pace->interrupted, memory_order_relaxed)) {
		if (now_ns >= due_ns)
			return true;
		if (now_ns < wake_ns)
			sleep_until(pace, wake_ns, now_ns);
		now_ns = clock_ns();
	}
	return false;
}

void pace_interrupt(struct pace *pace)
{
	atomic_store_explicit(&pace->interrupted, true, memory_order_relaxed);
	eventfd_write(pace->event_fd, 1);
}
