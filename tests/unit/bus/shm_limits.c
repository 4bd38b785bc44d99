/* SPDX-License-Identifier: Apache-2.0 */
/* Clients that are silent or too many, and a publisher that runs out of descriptors. */
#include <criterion/criterion.h>
#include <errno.h>
#include <malloc.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "bus/bounds.h"
#include "bus/clock.h"
#include "bus/shm/shm_frame.h"
#include "tests/unit/bus/shm_scene.h"

#define MANY 100u

TestSuite(shm, .init = enter, .fini = leave, .timeout = 60);

Test(shm, silent_connection_is_refused_with_a_reason)
{
	char body[FABRIC_MESSAGE_BYTES + 1];
	int fds[30], greeted;

	host_open(64, nobody_else);
	guest_enter();
	greeted = stranger();
	put_frame(greeted, SHM_HELLO, 8);
	for (size_t i = 0; i < 30; i++)
		fds[i] = stranger();
	UNTIL(host.logged == 30);
	cr_expect(strstr(host.log, "was refused: it connected and sent no hello"), "%s", host.log);
	cr_expect_eq(host.kind, FABRIC_LOG_REFUSED);
	for (size_t i = 0; i < 30; i++) {
		cr_assert_eq(take(fds[i], body, sizeof(body)), SHM_REFUSAL);
		cr_expect_str_eq(body + 4, "it connected and sent no hello");
		cr_assert_eq(take(fds[i], body, sizeof(body)), 0);
		close(fds[i]);
	}
	cr_expect_eq(host.gones, 0, "silence after the hello is no fault");
	close(greeted);
	UNTIL(host.gones == 1);
	guest_leave();
	guest_enter();
	expect_guest_well();
}

Test(shm, silence_after_a_challenge_is_refused_with_a_reason)
{
	char body[FABRIC_MESSAGE_BYTES + 1];
	int fd;

	host_open(64, nobody_else);
	host.challenging = true;
	fd = stranger();
	put_frame(fd, SHM_HELLO, 8);
	UNTIL(host.logged == 1);
	cr_assert_eq(take(fd, body, sizeof(body)), SHM_CHALLENGE);
	cr_assert_eq(take(fd, body, sizeof(body)), SHM_REFUSAL);
	cr_expect_str_eq(body + 4, "it connected and sent no hello");
	cr_assert_eq(take(fd, body, sizeof(body)), 0);
	close(fd);
}

/* -- many at once
 * ------------------------------------------------------------------------------------
 */

static uint64_t ahead_ms;

static int read_ahead(clockid_t clock, struct timespec *now)
{
	const int result = clock_gettime(clock, now);

	now->tv_sec += (time_t)(ahead_ms / 1000);
	return result;
}

/* The listener accepts nothing and answers nothing: it is not polled. */
Test(shm, silent_publisher_is_given_up)
{
	host_open(64, nobody_else);
	cr_assert_eq(shm_connect(&guest.link, "test", "hello", 5, &guest_calls, NULL), 0);
	shm_link_poll(guest.link);
	cr_expect_eq(shm_link_state(guest.link), LINK_CONNECTING);
	ahead_ms = 60000;
	clock_replace(read_ahead);
	shm_link_poll(guest.link);
	clock_replace(NULL);
	cr_expect_eq(shm_link_state(guest.link), LINK_GONE);
	cr_expect_eq(guest.code, ETIMEDOUT);
}

/* Polls once, while the listener's descriptor says that there is work. */
static void poll_once(unsigned int left)
{
	struct pollfd ready = { .fd = shm_listener_fd(host.listener), .events = POLLIN };

	cr_assert_eq(poll(&ready, 1, (int)deadline_ms()), 1, "%u peers wait, and no poll is due",
		     left);
	cr_assert_geq(shm_listener_poll(host.listener), 0);
}

/* Polls until all are done, and expects that no poll does more than it may. */
static void expect_steps(const unsigned int *done, unsigned int first)
{
	while (*done < first + MANY) {
		const unsigned int before = *done;

		poll_once(first + MANY - before);
		cr_assert_leq(*done - before, BOUND_PEERS_OF_A_TURN, "%u peers at once",
			      *done - before);
	}
	cr_expect_eq(*done, first + MANY);
}

static void many_enter(int fds[MANY], const char *hello)
{
	const unsigned int first = descriptors() + MANY;
	unsigned int before = first, now;

	for (size_t i = 0; i < MANY; i++) {
		fds[i] = stranger();
		if (hello)
			put(fds[i], hello, 9, 0);
	}
	while (before < first + MANY) {
		poll_once(first + MANY - before);
		now = descriptors();
		cr_assert_leq(now - before, BOUND_PEERS_OF_A_TURN, "%u peers at once",
			      now - before);
		before = now;
	}
}

Test(shm, many_peers_are_accepted_and_removed_in_steps)
{
	int fds[MANY];

	host_open(2 * MANY, nobody_else);
	guest_enter();
	many_enter(fds, "\1\0\0\0hello");
	UNTIL(host.hellos == 1 + MANY);
	for (size_t i = 0; i < MANY; i++)
		close(fds[i]);
	expect_steps(&host.gones, 0);
	expect_guest_well();
}

Test(shm, many_silent_peers_are_refused_in_steps)
{
	int fds[MANY];

	host_open(2 * MANY, nobody_else);
	guest_enter();
	many_enter(fds, NULL);
	ahead_ms = 60000;
	clock_replace(read_ahead);
	expect_steps(&host.logged, 0);
	clock_replace(NULL);
	expect_guest_well();
	for (size_t i = 0; i < MANY; i++)
		close(fds[i]);
}

static uint32_t code_of(const char *body)
{
	uint32_t code;

	memcpy(&code, body, sizeof(code));
	return code;
}

/* A client that only connects shows no ticket, and must not take all places of others. */
Test(shm, silent_connections_leave_a_place_to_others)
{
	char body[FABRIC_MESSAGE_BYTES + 1];
	int fds[MANY], greeted;

	host_open(1 + MANY, nobody_else);
	greeted = stranger();
	put_frame(greeted, SHM_HELLO, 8);
	UNTIL(host.hellos == 1);
	many_enter(fds, NULL);
	guest_enter();
	cr_assert_eq(guest.gones, 0, "%s", guest.why);
	expect_guest_well();
	cr_assert_eq(host.logged, 1);
	cr_assert_eq(take(fds[0], body, sizeof(body)), SHM_REFUSAL, "not the oldest was refused");
	cr_expect_eq(code_of(body), EAGAIN, "it may have a place at the next try");
	cr_expect_str_eq(body + 4, "the publisher has its maximum number of subscribers");
	close(greeted);
	for (size_t i = 0; i < MANY; i++)
		close(fds[i]);
}

/* There are more places than a user may have silent connections. */
Test(shm, silent_connections_of_a_user_are_bounded)
{
	char body[FABRIC_MESSAGE_BYTES + 1], words[128];
	int fds[MANY], more[3];

	host.per_user = MANY;
	host_open(2 * MANY, nobody_else);
	many_enter(fds, NULL);
	cr_expect_eq(host.logged, 0);
	for (size_t i = 0; i < 3; i++)
		more[i] = stranger();
	UNTIL(host.logged == 3);
	snprintf(words, sizeof(words),
		 "user %u has more than %u connections that wait for their hello",
		 (unsigned int)geteuid(), MANY);
	for (size_t i = 0; i < 3; i++) {
		cr_assert_eq(take(fds[i], body, sizeof(body)), SHM_REFUSAL);
		cr_expect_eq(code_of(body), EAGAIN);
		cr_expect_str_eq(body + 4, words);
		close(more[i]);
	}
	for (size_t i = 0; i < MANY; i++)
		close(fds[i]);
	guest_enter();
	expect_guest_well();
}

/* Clients that gave up cost less than clients that stay, and a poll takes more of them. */
Test(shm, connections_that_were_closed_are_accepted_four_times_as_fast)
{
	unsigned int polls = 0;

	host_open(64, nobody_else);
	guest_enter();
	for (unsigned int i = 0; i < 8 * 4 * BOUND_PEERS_OF_A_TURN; i++)
		close(stranger());
	for (struct pollfd ready = { .fd = shm_listener_fd(host.listener), .events = POLLIN };
	     poll(&ready, 1, 0) == 1 && polls < 1000; polls++)
		cr_assert_geq(shm_listener_poll(host.listener), 0);
	cr_expect_leq(polls, 8 + 2, "the queue is empty, and the timer may be due");
	cr_expect_eq(host.logged, 0, "%s", host.log);
	expect_guest_well();
}

/* Each connection that was accepted keeps its place. */
Test(shm, accepted_connections_keep_their_places)
{
	char body[FABRIC_MESSAGE_BYTES + 1];
	int fds[MANY], late;

	host_open(MANY, nobody_else);
	many_enter(fds, "\1\0\0\0hello");
	UNTIL(host.hellos == MANY);
	late = stranger();
	UNTIL(host.logged == 1);
	cr_assert_eq(take(late, body, sizeof(body)), SHM_REFUSAL);
	cr_expect_eq(code_of(body), EUSERS);
	cr_expect_str_eq(body + 4, "the publisher has its maximum number of subscribers");
	cr_expect_eq(host.gones, 0);
	close(late);
	for (size_t i = 0; i < MANY; i++)
		close(fds[i]);
}

Test(shm, abandoned_request_is_not_answered)
{
	int fd;

	host_open(64, nobody_else);
	guest_enter();
	fd = stranger();
	put_frame(fd, SHM_HELLO, 8);
	close(fd);
	fd = stranger();
	put_frame(fd, SHM_HELLO, 8); /* accepted after the abandoned request */
	UNTIL(host.hellos >= 2);
	expect_guest_well();
	cr_expect_eq(host.hellos, 2, "a hello of a closed connection was answered");
	close(fd);
}

/* Many clients that connect at once, half of them with a hello. Reports how many were refused, then
 * waits until it may go. */
static void flood(unsigned int count, int tell, int go)
{
	static int fds[FLOOD];
	char body[FABRIC_MESSAGE_BYTES + 1];
	unsigned int refused = 0;

	for (unsigned int i = 0; i < count; i++) {
		fds[i] = stranger();
		if (i % 2)
			put(fds[i], "\1\0\0\0hello", 9, 0);
	}
	for (unsigned int i = 0; i < count; i++) {
		struct pollfd ready = { .fd = fds[i], .events = POLLIN };

		/* Those that are taken and were silent hear nothing for some time. */
		if (poll(&ready, 1, i % 2 ? (int)deadline_ms() : 0) == 1)
			refused += take(fds[i], body, sizeof(body)) == SHM_REFUSAL;
	}
	if (write(tell, &refused, sizeof(refused)) < 0 || read(go, body, 1) < 0)
		_exit(1);
	_exit(0);
}

static pid_t flood_begin(unsigned int count, int *told, int *go)
{
	int tell[2], wait[2];
	pid_t child;

	cr_assert(pipe2(tell, O_NONBLOCK) == 0 && pipe(wait) == 0);
	child = fork();
	if (child == 0) {
		close(wait[1]);
		flood(count, tell[1], wait[0]);
	}
	close(tell[1]);
	close(wait[0]);
	*told = tell[0];
	*go = wait[1];
	return child;
}

static void flood_end(pid_t child, int told, int go)
{
	int status;

	close(go);
	close(told);
	cr_assert_eq(waitpid(child, &status, 0), child);
	cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %x", status);
}

Test(shm, thousand_connections_cost_a_bounded_amount)
{
	const unsigned int places = 64;
	unsigned int refused = 0, before;
	size_t memory;
	int told, go;
	pid_t child;

	host_open(places, nobody_else);
	guest_enter();
	before = descriptors();
	memory = mallinfo2().uordblks;
	child = flood_begin(FLOOD, &told, &go);
	UNTIL(read(told, &refused, sizeof(refused)) == sizeof(refused));
	UNTIL(host.logged >= FLOOD - (places - 1)); /* too late, or silent */
	cr_expect(refused >= FLOOD / 2 - places && refused <= FLOOD, "%u refused", refused);
	cr_expect_lt(mallinfo2().uordblks, memory + places * 1024);
	expect_guest_well();
	flood_end(child, told, go);
	UNTIL(host.gones == host.hellos - 1 && descriptors() == before);
	cr_expect_lt(mallinfo2().uordblks, memory + 4096); /* malloc caches seven freed peers */
	guest_leave();
	guest_enter();
	expect_guest_well();
}

Test(shm, without_descriptors_new_peers_are_refused)
{
	struct rlimit limit, little;
	unsigned int refused = 0;
	int told, go;
	pid_t child;

	host_open(256, nobody_else);
	guest_enter();
	child = flood_begin(100, &told, &go);
	cr_assert_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
	little = limit;
	little.rlim_cur = descriptors() + 8;
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &little), 0);
	UNTIL(host.logged > 50);
	cr_expect_str_eq(host.log, "a connection was refused: no descriptor is left (see "
				   "ulimit -n)");
	cr_expect_eq(host.kind, FABRIC_LOG_REFUSED);
	expect_guest_well();
	UNTIL(read(told, &refused, sizeof(refused)) == sizeof(refused));
	cr_expect_geq(refused, 30);
	flood_end(child, told, go);
	UNTIL(host.gones == host.hellos - 1);
	guest_leave();
	guest_enter();
	expect_guest_well();
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

/* The low limit acts like a thread that takes the reserve's descriptor as soon as it is closed. */
Test(shm, without_the_reserve_connections_wait)
{
	struct pollfd ready = { .events = POLLIN };
	struct rlimit limit, none;
	unsigned int refused = 0;
	int told, go;
	pid_t child;

	host_open(256, nobody_else);
	guest_enter();
	ready.fd = shm_listener_fd(host.listener);
	child = flood_begin(20, &told, &go);
	cr_assert_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
	none = (struct rlimit){ .rlim_cur = 3, .rlim_max = limit.rlim_max };
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
	UNTIL(host.logged > 0);
	cr_expect_str_eq(host.log, "connections wait: no descriptor is left (see ulimit -n)");
	cr_expect_eq(host.kind, FABRIC_LOG_INFO);
	UNTIL(poll(&ready, 1, 0) == 0);
	expect_guest_well();
	cr_expect_eq(host.hellos, 1);
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
	UNTIL(host.hellos == 1 + 10);
	UNTIL(read(told, &refused, sizeof(refused)) == sizeof(refused));
	cr_expect_eq(refused, 0);
	flood_end(child, told, go);
	UNTIL(host.gones == host.hellos - 1);
	expect_guest_well();
}
