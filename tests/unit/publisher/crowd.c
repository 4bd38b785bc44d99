/* SPDX-License-Identifier: Apache-2.0 */
/* Many restarts, and many clients that die, while one subscriber is well. */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/publisher/client.h"

#define TOPICS   600 /* more messages than a socket queues */
#define CLIENTS  500
#define STALE_MS 4000

static struct tb_topic *topics[TOPICS];
static struct tb_subscriber *subscriber;
static struct seen {
	uint64_t records, restarts, stales, gaps, refusals;
} seen;

static void on_record(void *user, const struct tb_source *source, const struct tb_record *record)
{
	(void)user;
	(void)source;
	(void)record;
	seen.records++;
}

static void on_event(void *user, const struct tb_event *event)
{
	(void)user;
	seen.restarts += event->kind == TB_EVENT_RESTART;
	seen.stales += event->kind == TB_EVENT_STALE;
	seen.gaps += event->kind == TB_EVENT_GAP;
	seen.refusals += event->kind == TB_EVENT_REFUSED;
}

static void enter(void)
{
	static const char *const listen[] = { "shm:test" };
	const struct tb_publisher_options options = { .size = sizeof(options),
						      .name = "test",
						      .listen = listen,
						      .listen_count = 1,
						      .topics_max = TOPICS,
						      .stale_ms = STALE_MS,
						      .exit_wait_ms = UINT32_MAX,
						      .log = keep_log };

	scene_enter();
	ops = fabric_find(listen[0], &address);
	cr_assert_eq(tb_publisher_open(&publisher, &options), 0, "%s", tb_error());
}

static void leave(void)
{
	tb_subscriber_close(subscriber);
	client_leave();
}

TestSuite(crowd, .init = enter, .fini = leave, .timeout = 120);

static uint64_t counter(enum bus_counter index)
{
	return atomic_load(&publisher->counters[index]);
}

static void subscribe_all(uint32_t count)
{
	const struct tb_subscription_options options = { .size = sizeof(options),
							 .on_record = on_record,
							 .on_event = on_event,
							 .from = TB_FROM_OLDEST,
							 .flags = TB_WAIT };
	const struct tb_subscriber_options how = { .size = sizeof(how),
						   .address = "shm:test",
						   .topics_max = TOPICS,
						   .connect_ms = 20000 };
	struct tb_subscription *subscription;
	char name[16];

	for (uint32_t i = 0; i < count; i++) {
		snprintf(name, sizeof(name), "t%u", i);
		topics[i] = scene_topic(publisher, name, 64, 0);
		scene_publish(topics[i], 1, 1);
	}
	cr_assert_eq(tb_subscriber_open(&subscriber, &how), 0, "%s", tb_error());
	cr_assert_eq(tb_subscribe(subscriber, ">", &options, &subscription), 0, "%s", tb_error());
	cr_assert(scene_poll_until(subscriber, &seen.records, count));
}

/* The publisher has looked at what was signalled before this call. */
static void wait_for_turns(uint64_t pulses)
{
	const uint64_t late_ms = scene_now_ms() + deadline_ms();
	uint64_t first, now;

	publisher_lock(publisher);
	first = now = publisher->realms[0].pulse.count;
	publisher_unlock(publisher);
	while (now < first + pulses) {
		cr_assert_lt(scene_now_ms(), late_ms, "waited for a pulse");
		usleep(1000);
		publisher_lock(publisher);
		now = publisher->realms[0].pulse.count;
		publisher_unlock(publisher);
	}
}

Test(crowd, subscriber_that_is_away_learns_of_every_restart)
{
	subscribe_all(TOPICS);
	for (int times = 0; times < 2; times++)
		for (uint32_t i = 0; i < TOPICS; i++) {
			cr_assert_eq(tb_topic_restart(topics[i]), 0, "%s", tb_error());
			scene_publish(topics[i], 1, 1);
		}
	wait_for_turns(2);
	cr_assert_eq(counter(BUS_DROPPED), 0, "%s", logged);
	seen.records = 0;
	cr_assert(scene_poll_until(subscriber, &seen.restarts, TOPICS), "%s", logged);
	cr_assert(scene_poll_until(subscriber, &seen.records, TOPICS));
	cr_expect_eq(seen.restarts, TOPICS);
	cr_expect_eq(seen.refusals, 0);
	cr_expect_eq(counter(BUS_DROPPED), 0, "%s", logged);
	cr_expect_eq(counter(BUS_CONNECTIONS), 1, "the subscriber had to connect again");
}

/* In a process of its own. */
static void connect_many(int tell)
{
	static struct client many[CLIENTS];
	struct rlimit limit;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	getrlimit(RLIMIT_NOFILE, &limit);
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
	for (uint32_t i = 0; i < CLIENTS; i++) {
		client_open(&many[i]);
		ops->remote_close(many[i].page);
		many[i].page = NULL;
	}
	if (write(tell, "x", 1) < 0)
		_exit(1);
	for (;;)
		pause();
}

Test(crowd, death_of_many_clients_costs_another_no_event)
{
	struct rlimit limit;
	uint64_t sequence = 1;
	int tell[2];
	pid_t child;
	char byte;

	cr_assert_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
	if (limit.rlim_max < 2 * CLIENTS)
		cr_skip("the hard limit of descriptors is too low");
	limit.rlim_cur = limit.rlim_max;
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
	cr_assert_eq(pipe(tell), 0);
	child = fork();
	cr_assert_geq(child, 0);
	if (child == 0) {
		close(tell[0]);
		connect_many(tell[1]);
	}
	close(tell[1]);
	cr_assert_eq(read(tell[0], &byte, 1), 1, "the clients could not connect");
	subscribe_all(1);
	cr_assert_eq(counter(BUS_SUBSCRIBERS), CLIENTS + 1);
	cr_assert_eq(kill(child, SIGKILL), 0);
	cr_assert_eq(waitpid(child, NULL, 0), child);
	for (const uint64_t late_ms = scene_now_ms() + deadline_ms();
	     counter(BUS_SUBSCRIBERS) > 1 || sequence < 1000; sequence++) {
		cr_assert_lt(scene_now_ms(), late_ms, "%ju clients are left",
			     (uintmax_t)counter(BUS_SUBSCRIBERS));
		scene_publish(topics[0], sequence + 1, sequence + 1);
		cr_assert(scene_poll_until(subscriber, &seen.records, sequence + 1));
	}
	cr_expect_eq(seen.stales, 0);
	cr_expect_eq(seen.gaps, 0);
	cr_expect_eq(seen.records, sequence);
	close(tell[0]);
}
