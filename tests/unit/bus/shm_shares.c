/* SPDX-License-Identifier: Apache-2.0 */
/* Peers that do not take what they are sent: a user's share of the descriptors in flight, and the
 * end of connections that stay full. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#include "bus/clock.h"
#include "bus/peers.h"
#include "bus/shm/shm_flight.h"
#include "bus/shm/shm_frame.h"
#include "tests/unit/bus/shm_scene.h"
#include "tickbus/error.h"

#define STALLED_S 10

static uint64_t ahead_s;

static int read_ahead(clockid_t clock, struct timespec *now)
{
	const int result = clock_gettime(clock, now);

	now->tv_sec += (time_t)ahead_s;
	return result;
}

static void enter_shares(void)
{
	enter();
	ahead_s = 0;
	clock_replace(read_ahead);
}

TestSuite(shares, .init = enter_shares, .fini = leave, .timeout = 60);

/* A client that was accepted and reads nothing; *peer is the listener's side of it. */
static int client(struct peer **peer)
{
	const unsigned int before = host.hellos;
	const int fd = stranger();

	put_frame(fd, SHM_HELLO, 8);
	UNTIL(host.hellos > before);
	*peer = host.last;
	return fd;
}

/* Sends up to `most` grants as a publisher does. Returns how many were sent. */
static unsigned int grants(struct peer *peer, unsigned int most)
{
	struct fabric_key key;
	unsigned int sent = 0;

	while (sent < most && shm_key(host.exposure, peer, &key) == 0) {
		cr_assert_eq(shm_send(peer, "grant", 5, host.exposure), 0, "%s", tb_error());
		sent++;
	}
	return sent;
}

/* Half of its queue: further offers wait. */
static void offers_fill(struct peer *peer)
{
	while (shm_offer(peer, "offer", 5) == 0)
		;
	cr_assert_eq(shm_offer(peer, "offer", 5), -EAGAIN);
}

/* An answer of the longest length. */
static int answer(struct peer *peer)
{
	static const uint8_t body[FABRIC_MESSAGE_BYTES];

	return shm_send(peer, body, sizeof(body), NULL);
}

/* Answers to requests that it makes without reading: more than a good peer leaves. */
static void answers_fill(struct peer *peer)
{
	offers_fill(peer);
	for (unsigned int i = 0; i < 2 + FABRIC_UNANSWERED; i++)
		cr_assert_eq(answer(peer), 0, "%s", tb_error());
}

static void take_one(int fd)
{
	char body[FABRIC_MESSAGE_BYTES + 1];

	cr_assert_neq(take(fd, body, sizeof(body)), 0);
}

/* -- a user's share -----------------------------------------------------------------------------
 */

/* The least share. Criterion needs more descriptors than that itself. */
static void open_with_little(void)
{
	struct rlimit limit;

	cr_assert_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
	limit.rlim_cur = FLIGHT_MAX * FLIGHT_SHARES;
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
	host_open(64, nobody_else);
}

Test(shares, user_has_at_most_its_share_of_descriptors_in_flight)
{
	char expected[128];
	struct peer *peer, *other;
	struct fabric_key key;
	int fd, other_fd;

	open_with_little();
	fd = client(&peer); /* its welcome came with a descriptor */
	other_fd = client(&other);
	cr_expect_eq(grants(peer, 10), 10);
	cr_expect_eq(grants(other, 10), FLIGHT_MAX - 12);
	cr_expect_eq(shm_key(host.exposure, other, &key), -EAGAIN);
	snprintf(expected, sizeof(expected),
		 "user %u leaves %d descriptors untaken, expected fewer than %d (see ulimit -n)",
		 (unsigned int)geteuid(), FLIGHT_MAX, FLIGHT_MAX);
	cr_expect_str_eq(tb_error(), expected);
	take_one(fd);
	cr_expect_eq(grants(other, 10), 1, "what is taken counts no more");
	cr_expect_eq(host.gones + host.logged, 0, "no connection ends for it");
	close(fd);
	close(other_fd);
}

Test(shares, ended_connection_counts_until_its_client_closes_it)
{
	char body[FABRIC_MESSAGE_BYTES + 1];
	struct peer *peer;
	unsigned int before;
	int fds[3], fd;

	open_with_little();
	before = descriptors();
	for (int i = 0; i < 3; i++) {
		fds[i] = client(&peer);
		cr_expect_eq(grants(peer, 4), 4);
		peers_drop(peer, "the test says so");
	}
	fd = client(&peer);
	cr_expect_eq(grants(peer, 4), 0);
	close(fds[0]); /* it received nothing */
	cr_expect_eq(grants(peer, 10), 5);
	while (take(fds[1], body, sizeof(body)) != 0) /* it takes all, and sees the end */
		;
	cr_expect_eq(grants(peer, 10), 5);
	for (int i = 1; i < 3; i++)
		close(fds[i]);
	close(fd);
	UNTIL(descriptors() == before);
}

/* A user may have as many as the listener has places. */
Test(shares, user_with_too_many_ended_connections_gets_no_more)
{
	struct peer *peer;
	struct fabric_key key;
	char expected[128];
	int fds[4], fd;

	host_open(4, nobody_else);
	for (int i = 0; i < 4; i++) {
		fds[i] = client(&peer);
		peers_drop(peer, "the test says so");
	}
	fd = client(&peer);
	cr_expect_eq(shm_key(host.exposure, peer, &key), -EAGAIN);
	snprintf(expected, sizeof(expected),
		 "user %u left descriptors untaken in 4 connections that ended; expected it to "
		 "close them",
		 (unsigned int)geteuid());
	cr_expect_str_eq(tb_error(), expected);
	close(fds[0]);
	UNTIL(shm_key(host.exposure, peer, &key) == 0); /* with the timer */
	for (int i = 1; i < 4; i++)
		close(fds[i]);
	close(fd);
}

/* As many ended connections of one user as it may have. */
static void endings(int *fds, unsigned int count, uid_t user)
{
	struct peer *peer;

	cr_assert_eq(seteuid(user), 0); /* the kernel takes this user for the client's */
	for (unsigned int i = 0; i < count; i++) {
		fds[i] = client(&peer);
		peers_drop(peer, "the test says so");
	}
	cr_assert_eq(seteuid(0), 0);
}

/* Two users cannot hide descriptors by acting together, and a user cannot lock out another. */
Test(shares, ended_connections_of_another_user_change_nothing)
{
	const uid_t users[] = { SOMEONE };
	const struct fabric_access access = { users, 1, NULL, 0 };
	struct fabric_key key;
	struct peer *peer;
	int theirs[4], fds[4], fd;

	if (!may_be_others())
		cr_skip("only root can try to connect as others");
	host_open(4, access);
	endings(theirs, 4, SOMEONE);
	endings(fds, 3, 0);
	fd = client(&peer);
	cr_expect_eq(shm_key(host.exposure, peer, &key), 0, "%s", tb_error());
	endings(&fds[3], 1, 0);
	cr_expect_eq(shm_key(host.exposure, peer, &key), -EAGAIN);
	for (int i = 0; i < 4; i++) {
		close(theirs[i]);
		close(fds[i]);
	}
	close(fd);
}

Test(shares, other_user_gets_its_share)
{
	const uid_t users[] = { SOMEONE };
	const struct fabric_access access = { users, 1, NULL, 0 };
	struct peer *peer;
	struct rlimit limit;
	unsigned int hellos;
	int fd;

	if (!may_be_others())
		cr_skip("only root can try to connect as others");
	cr_assert_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
	limit.rlim_cur = FLIGHT_MAX * FLIGHT_SHARES;
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
	host_open(64, access);
	host.sharing = true;
	fd = client(&peer);
	cr_expect_eq(grants(peer, FLIGHT_MAX), FLIGHT_MAX - 1);
	hellos = host.hellos;
	cr_expect_eq(as_someone(SOMEONE, SOMEONE, 0), 0);
	cr_expect_eq(host.hellos, hellos + 1);
	close(fd);
}

/* -- connections that stay full -----------------------------------------------------------------
 */

static void expect_stalled(void)
{
	cr_expect_eq(host.kind, FABRIC_LOG_DROPPED);
	cr_expect(strstr(host.log, "was dropped: it has not read its messages for 10 s"), "%s",
		  host.log);
}

Test(shares, peer_whose_queue_stays_full_is_dropped)
{
	struct peer *peer;
	int fd;

	host_open(4, nobody_else);
	fd = client(&peer);
	answers_fill(peer);
	cr_expect_eq(host.gones, 0);
	ahead_s = STALLED_S;
	UNTIL(host.gones == 1);
	expect_stalled();
	close(fd);
}

Test(shares, peer_that_leaves_many_descriptors_untaken_is_dropped)
{
	struct peer *peer;
	int fd;

	host_open(4, nobody_else);
	fd = client(&peer);
	cr_assert_eq(grants(peer, FABRIC_UNANSWERED + 1), FABRIC_UNANSWERED + 1);
	ahead_s = STALLED_S;
	UNTIL(host.gones == 1);
	expect_stalled();
	close(fd);
}

/* A good subscriber has at most so many requests unanswered when it is stopped. If it joined many
 * topics, their wakes fill the half for offers. The other peer's end shows that both were looked
 * at. */
Test(shares, stopped_peer_with_room_stays)
{
	struct peer *peer, *full;
	int fd, full_fd;

	host_open(4, nobody_else);
	fd = client(&peer);
	full_fd = client(&full);
	cr_assert_eq(grants(peer, FABRIC_UNANSWERED), FABRIC_UNANSWERED);
	offers_fill(peer);
	answers_fill(full);
	ahead_s = STALLED_S;
	UNTIL(host.gones > 0);
	cr_expect_eq(host.gones, 1);
	for (int i = 0; i < 1 + FABRIC_UNANSWERED; i++)
		take_one(fd);
	cr_expect_eq(shm_send(peer, "grant", 5, host.exposure), 0, "%s", tb_error());
	close(fd);
	close(full_fd);
}

Test(shares, stopped_peer_with_offers_and_long_answers_stays)
{
	struct peer *peer, *full;
	int fd, full_fd;

	host_open(4, nobody_else);
	fd = client(&peer);
	full_fd = client(&full);
	offers_fill(peer);
	for (unsigned int i = 0; i < FABRIC_UNANSWERED; i++)
		cr_assert_eq(answer(peer), 0, "%s", tb_error());
	answers_fill(full);
	ahead_s = STALLED_S;
	UNTIL(host.gones > 0);
	cr_expect_eq(host.gones, 1);
	cr_expect_eq(shm_send(peer, "answer", 6, NULL), 0, "%s", tb_error());
	close(fd);
	close(full_fd);
}

/* It was full first, and is looked at first. */
Test(shares, full_peer_that_takes_a_message_stays)
{
	struct peer *slow, *full;
	int fd, full_fd;

	host_open(4, nobody_else);
	fd = client(&slow);
	full_fd = client(&full);
	answers_fill(slow);
	answers_fill(full);
	take_one(fd);
	cr_assert_eq(shm_send(slow, "an answer that fills its place", 30, NULL), 0);
	ahead_s = STALLED_S;
	UNTIL(host.gones > 0);
	cr_expect_eq(host.gones, 1);
	cr_expect_eq(shm_send(slow, "answer", 6, NULL), 0, "%s", tb_error());
	ahead_s = 2 * STALLED_S; /* since then it took nothing */
	UNTIL(host.gones == 2);
	expect_stalled();
	close(fd);
	close(full_fd);
}

/* Its descriptors are counted when it joins on, so it may look full until then. */
Test(shares, peer_that_left_its_last_descriptor_stays)
{
	struct peer *peer, *full;
	int fd, full_fd;

	host_open(4, nobody_else);
	fd = client(&peer);
	full_fd = client(&full);
	take_one(fd);
	for (unsigned int i = 0; i < FABRIC_UNANSWERED + 1; i++) {
		if (i > 0)
			take_one(fd);
		cr_assert_eq(grants(peer, 1), 1);
	}
	answers_fill(full);
	ahead_s = STALLED_S;
	UNTIL(host.gones > 0);
	cr_expect_eq(host.gones, 1);
	cr_expect_eq(shm_send(peer, "answer", 6, NULL), 0, "%s", tb_error());
	close(fd);
	close(full_fd);
}
