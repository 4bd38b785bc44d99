/* SPDX-License-Identifier: Apache-2.0 */
/* The control thread: accepts clients, answers them, writes the pulse, wakes sleepers, reports ends
 * and restarts of topics.
 *
 * It waits in epoll for the listeners, an eventfd and a timer. The eventfd signals that a flush
 * found a sleeper, a topic ended or restarted, or the publisher closes. The timer runs at a quarter
 * of the stale bound. Once a topic has notices, it runs at the tick that repeats heads: 2 ms. */
#include "publisher/server.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "bus/clock.h"
#include "bus/counters.h"
#include "bus/error.h"
#include "bus/numa.h"
#include "publisher/announce.h"
#include "publisher/answers.h"
#include "publisher/catalogue.h"
#include "publisher/hello.h"
#include "publisher/log.h"
#include "publisher/offers.h"
#include "publisher/pulse.h"
#include "publisher/realm.h"
#include "publisher/session.h"
#include "publisher/sleepers.h"
#include "publisher/tickets.h"
#include "publisher/wakeup.h"

#define CLOSING_POLL_MS 20

/* -- what listeners call ------------------------------------------------------------------------
 */

static void on_message(void *user, struct peer *peer, const void *bytes, size_t length)
{
	struct tb_publisher *publisher = ((struct endpoint *)user)->publisher;
	struct control_message message;
	int result = control_decode(bytes, length, &message);

	counter_add(&publisher->counters[BUS_MESSAGES], 1);
	if (result == 0)
		result = answers_give(peer->user, &message);
	if (result != -EPROTO) {
		if (result != -ENOTCONN) /* it ended its session otherwise */
			offers_again(peer->user);
		return;
	}
	counter_add(&publisher->counters[BUS_MALFORMED], 1);
	session_close(peer->user);
	peer->ops->drop(peer, tb_error());
}

static void on_gone(void *user, struct peer *peer, const char *why)
{
	struct tb_publisher *publisher = ((struct endpoint *)user)->publisher;
	char name[64];

	peer->ops->peer_text(peer, name, sizeof(name));
	publisher_log(publisher, TB_LOG_DEBUG, "%s left: %s", name, why);
	session_close(peer->user);
}

static void on_log(void *user, enum fabric_log kind, const char *text)
{
	struct endpoint *endpoint = user;
	_Atomic uint64_t *counters = endpoint->publisher->counters;

	if (kind == FABRIC_LOG_LOST) {
		publisher_log(endpoint->publisher, TB_LOG_ERROR, "%s", text);
		return;
	}
	if (kind != FABRIC_LOG_INFO)
		counter_add(&counters[kind == FABRIC_LOG_REFUSED ? BUS_REFUSED : BUS_DROPPED], 1);
	endpoint_log(endpoint, text);
}

const struct listener_calls server_calls = {
	.hello = hello_answer,
	.message = on_message,
	.gone = on_gone,
	.log = on_log,
};

/* -- what writers signalled ---------------------------------------------------------------------
 */

/* Takes note of a restart and of an end. Returns the realms whose pages change. */
static uint32_t topic_changed(struct tb_publisher *publisher, struct tb_topic *topic)
{
	const uint64_t restarts = atomic_load_explicit(&topic->restarts, memory_order_relaxed);
	uint32_t realms = 0;

	if (restarts != topic->restarts_sent) {
		topic->restarts_sent = restarts;
		realms_change(publisher, topic);
		realms = topic->realms;
	}
	if (atomic_load_explicit(&topic->end_due, memory_order_acquire) && !topic->end_sent) {
		topic->end_sent = true;
		realms = topic->realms;
	}
	return realms;
}

/* Only topics that signalled are looked at, so a client's message does not cost a scan of all. If
 * the turn has seen its joins, further topics keep their signals for the next turn. */
static void server_signalled(struct tb_publisher *publisher)
{
	uint32_t realms = 0, joins = 0, left = publisher->topic_count;

	for (; left > 0 && joins < JOINS_OF_A_TURN; left--) {
		struct tb_topic *topic =
			publisher->topics[publisher->signals_first++ % publisher->topic_count];
		uint32_t changed;

		if (!wakeup_signalled(&topic->wakeup))
			continue;
		joins += topic->join_count;
		changed = topic_changed(publisher, topic);
		for (struct join *join = topic->joins; changed && join; join = join->next_of_topic)
			offers_owe(join);
		sleepers_wake(topic);
		realms |= changed;
	}
	publisher->signals_left = left > 0;
	if (realms)
		pulse_write(publisher, realms);
}

/* After a pulse: looks at the sleepers of all topics, in as many turns as that takes. */
static void server_sleepers(struct tb_publisher *publisher)
{
	for (uint32_t joins = 0; publisher->sleepers_left > 0 && joins < JOINS_OF_A_TURN;) {
		struct tb_topic *topic = publisher->topics[--publisher->sleepers_left];

		if (topic->sleepers > 0)
			joins += topic->join_count;
		sleepers_wake(topic);
	}
}

/* -- the loop -----------------------------------------------------------------------------------
 */

/* Whether all subscribers have read to the end and left, or exit_wait_ms has passed. */
static bool closing_done(const struct tb_publisher *publisher)
{
	if (!atomic_load_explicit(&publisher->closing, memory_order_acquire))
		return false;
	if (clock_ms() >= publisher->close_by_ms)
		return true;
	for (const struct session *session = publisher->sessions; session; session = session->next)
		if (session->join_count > 0)
			return false;
	return true;
}

static void closing_log(struct tb_publisher *publisher)
{
	char name[64];

	for (uint32_t i = 0; i < publisher->endpoint_count; i++)
		endpoint_log_rest(&publisher->endpoints[i]);
	for (const struct session *session = publisher->sessions; session;
	     session = session->next) {
		const struct join *join = session_any(session);

		if (!join)
			continue;
		session->peer->ops->peer_text(session->peer, name, sizeof(name));
		publisher_log(publisher, TB_LOG_WARNING,
			      "%s had not read to the end of topic %s when the bus closed", name,
			      join->topic->name);
	}
}

static void server_pulse(struct tb_publisher *publisher)
{
	tickets_expire(publisher);
	pulse_count_silence(publisher);
	pulse_write(publisher, REALMS_ALL);
	if (publisher->sleepers_left == 0)
		publisher->sleepers_left = publisher->topic_count;
	offers_again_all(publisher);
	for (uint32_t i = 0; i < publisher->endpoint_count; i++)
		endpoint_log_second(&publisher->endpoints[i]);
}

/* What woke the thread. The timer only wakes; the clock decides whether a pulse is due. */
static void server_event(struct tb_publisher *publisher, void *what)
{
	struct endpoint *endpoint = what;
	uint64_t count;

	if (what == &publisher->timer_fd)
		(void)!read(publisher->timer_fd, &count, sizeof(count));
	else if (what == &publisher->event_fd)
		publisher->signals_left |= read(publisher->event_fd, &count, sizeof(count)) > 0;
	else
		endpoint->listener->ops->listener_poll(endpoint->listener);
}

static void server_work(struct tb_publisher *publisher, const struct epoll_event *events, int count)
{
	for (int i = 0; i < count; i++)
		server_event(publisher, events[i].data.ptr);
	if (publisher->signals_left)
		server_signalled(publisher);
	if (announce_due(publisher))
		announce_repeat(publisher);
	if (pulse_due(publisher))
		server_pulse(publisher);
	server_sleepers(publisher);
	/* While other offers are left, full queues wait: else the thread would never rest. */
	if (atomic_load_explicit(&publisher->closing, memory_order_acquire) &&
	    !offers_left(publisher))
		offers_again_all(publisher);
	sleepers_look(publisher);
	catalogue_answer(publisher);
	offers_make(publisher);
}

/* Waits at most wait_ms for something to do, -1 without a bound, then takes one turn. */
static bool server_take(struct tb_publisher *publisher, int wait_ms)
{
	struct epoll_event events[16];
	const int count = epoll_wait(publisher->epoll_fd, events, 16, wait_ms);
	bool done;

	publisher_lock(publisher);
	server_work(publisher, events, count);
	done = closing_done(publisher);
	if (done)
		closing_log(publisher);
	publisher_unlock(publisher);
	return done;
}

bool server_turn(struct tb_publisher *publisher)
{
	return server_take(publisher, 0);
}

/* The bound of epoll_wait() is in milliseconds. */
static void wait_briefly(const struct tb_publisher *publisher, int64_t ns)
{
	struct pollfd poll_fd = { .fd = publisher->epoll_fd, .events = POLLIN };
	const struct timespec bound = { 0, (long)ns };

	ppoll(&poll_fd, 1, &bound, NULL);
}

/* How long the thread may wait for a descriptor; -1: without a bound. While sleepers are late, it
 * has waited here. */
static int server_wait_ms(const struct tb_publisher *publisher)
{
	const int64_t late_ns = sleepers_wait_ns(publisher);

	if (offers_left(publisher) || catalogue_left(publisher) || publisher->signals_left ||
	    publisher->sleepers_left)
		return 0;
	if (late_ns >= 0) {
		wait_briefly(publisher, late_ns);
		return 0;
	}
	return atomic_load_explicit(&publisher->closing, memory_order_acquire) ? CLOSING_POLL_MS
									       : -1;
}

static void *server_run(void *user)
{
	struct tb_publisher *publisher = user;
	bool done = false;

	prctl(PR_SET_TIMERSLACK, 1UL); /* this thread's: looks at late sleepers are on time */
	while (!done)
		done = server_take(publisher, server_wait_ms(publisher));
	return NULL;
}

/* -- the thread ---------------------------------------------------------------------------------
 */

/* The timer wakes the control thread each period_ms. */
static int timer_pace(const struct tb_publisher *publisher, long period_ms)
{
	const struct timespec period = { period_ms / 1000, period_ms % 1000 * 1000000 };
	const struct itimerspec pace = { period, period };

	return timerfd_settime(publisher->timer_fd, 0, &pace, NULL);
}

int server_tick(struct tb_publisher *publisher)
{
	if (publisher->tick_due_ns)
		return 0;
	if (timer_pace(publisher, ANNOUNCE_TICK_MS) < 0)
		return error_set(errno, "bus %s: cannot set the control thread's timer: %s",
				 publisher->name, strerror(errno));
	announce_begin(publisher);
	return 0;
}

int server_open(struct tb_publisher *publisher)
{
	struct epoll_event event = { .events = EPOLLIN, .data.ptr = &publisher->event_fd };
	struct epoll_event tick = { .events = EPOLLIN, .data.ptr = &publisher->timer_fd };

	publisher->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	publisher->event_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	publisher->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
	pulse_begin(publisher); /* before the timer starts: at each tick a pulse is due */
	if (publisher->epoll_fd < 0 || publisher->event_fd < 0 || publisher->timer_fd < 0 ||
	    timer_pace(publisher, PULSE_QUARTER_MS(publisher)) < 0 ||
	    epoll_ctl(publisher->epoll_fd, EPOLL_CTL_ADD, publisher->event_fd, &event) < 0 ||
	    epoll_ctl(publisher->epoll_fd, EPOLL_CTL_ADD, publisher->timer_fd, &tick) < 0)
		return error_set(errno,
				 "bus %s: cannot create the control thread's descriptors: %s",
				 publisher->name, strerror(errno));
	return 0;
}

void server_close(struct tb_publisher *publisher)
{
	if (publisher->epoll_fd >= 0)
		close(publisher->epoll_fd);
	if (publisher->event_fd >= 0)
		close(publisher->event_fd);
	if (publisher->timer_fd >= 0)
		close(publisher->timer_fd);
}

/* The thread blocks all signals: they are for the program's own threads. */
static int thread_create(struct tb_publisher *publisher, const cpu_set_t *cpus)
{
	sigset_t all, before;
	pthread_attr_t how;
	int code = pthread_attr_init(&how);

	if (code)
		return code;
	if (cpus)
		code = pthread_attr_setaffinity_np(&how, sizeof(*cpus), cpus);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	if (code == 0)
		code = pthread_create(&publisher->thread, &how, server_run, publisher);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&how);
	return code;
}

/* The processors near a node that the process's main thread may run on; may be empty. So taskset
 * and CPUAffinity= hold, but not the affinity of the calling thread. */
static void cpus_near(int node, cpu_set_t *cpus)
{
	cpu_set_t own;

	if (!numa_cpus(node, cpus) || sched_getaffinity(getpid(), sizeof(own), &own) < 0)
		CPU_ZERO(&own);
	CPU_AND(cpus, cpus, &own);
}

/* The processor of the options is mandatory. The node is a preference: if no processor near it is
 * allowed, the thread keeps the caller's affinity. */
int server_start(struct tb_publisher *publisher)
{
	char online[256];
	cpu_set_t cpus;
	int code;

	CPU_ZERO(&cpus);
	if (publisher->cpu >= 0)
		CPU_SET((size_t)publisher->cpu, &cpus);
	else if (publisher->node != NUMA_ANY)
		cpus_near(publisher->node, &cpus);
	code = thread_create(publisher, CPU_COUNT(&cpus) > 0 ? &cpus : NULL);
	if (code == EINVAL && publisher->cpu < 0)
		code = thread_create(publisher, NULL);
	if (code == EINVAL && publisher->cpu >= 0) {
		numa_line("/sys/devices/system/cpu/online", online, sizeof(online));
		return error_set(EINVAL,
				 "publisher options: cpu: found processor %d, expected one of %s "
				 "that this process may run on",
				 publisher->cpu, online);
	}
	if (code)
		return error_set(code, "bus %s: cannot start the control thread: %s",
				 publisher->name, strerror(code));
	pthread_setname_np(publisher->thread, "tickbus-control");
	return 0;
}
