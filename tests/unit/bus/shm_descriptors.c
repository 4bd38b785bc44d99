/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptors that cross the socket: unwanted, lingering, too many, kept by a child. */
#include <criterion/criterion.h>
#include <errno.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "bus/peers.h"
#include "bus/shm/shm_frame.h"
#include "tests/support/old_kernel.h"
#include "tickbus/error.h"
#include "tests/unit/bus/shm_scene.h"

TestSuite(shm, .init = enter, .fini = leave, .timeout = 60);

/* Finds the host's listening socket. */
static int listening_socket(void)
{
	for (int fd = 3; fd < 1024; fd++) {
		int listens = 0, domain = 0;
		socklen_t length = sizeof(int);

		if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &length) == 0 && listens &&
		    getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &length) == 0 &&
		    domain == AF_UNIX)
			return fd;
	}
	cr_assert_fail("no process listens");
	return -1;
}

Test(shm, publisher_accepts_no_descriptor)
{
	socklen_t length = sizeof(int);
	int fd, may;

	host_open(4, nobody_else);
	if (getsockopt(listening_socket(), SOL_SOCKET, SO_PASSRIGHTS, &may, &length) < 0)
		cr_skip("this kernel lets everyone send them (Linux before 6.16)");
	fd = stranger();
	cr_expect_not(put(fd, "\1\0\0\0hello", 9, 1));
	cr_expect_eq(errno, EPERM);
	turn();
	cr_expect_not(put(fd, "\1\0\0\0hello", 9, 1));
	cr_expect_eq(errno, EPERM);
	cr_expect(put(fd, "\1\0\0\0hello", 9, 0));
	UNTIL(host.hellos == 1);
	close(fd);
	guest_enter(); /* descriptors still reach the subscriber */
	expect_guest_well();
}

/* Sends a descriptor whose close lingers, after a frame with `others` other descriptors. With
 * `behind`, a frame that ends the connection goes first. */
static void send_lingering(unsigned int others, bool behind)
{
	const unsigned int before = host.logged;
	const uint64_t begun_ms = now_ms();
	int fd = stranger(), other, given = lingering(&other);

	if (behind) {
		put_frame(fd, SHM_WELCOME, 8); /* with this it is dropped */
		cr_assert(put(fd, "", 0, 0));
	}
	if (others > 0)
		cr_assert(put(fd, "\4\0\0\0all", 7, others));
	cr_assert(put_with(fd, "\4\0\0\0this", 8, given, 1));
	close(given);
	UNTIL(host.logged > before);
	cr_expect_lt(now_ms() - begun_ms, LINGER_S * 1000 / 2, "its close was waited for");
	close(fd);
	close(other);
}

Test(shm, closing_received_descriptors_never_waits)
{
	unsigned int before;

	old_kernel = true;
	host_open(8, nobody_else);
	guest_enter();
	before = descriptors();
	send_lingering(0, false);
	send_lingering(253, false);
	send_lingering(0, true);
	send_lingering(253, true);
	cr_expect_eq(descriptors(), before);
	expect_guest_well();
}

/* A frame with more descriptors than one: all but the last are others. */
Test(shm, all_descriptors_of_a_frame_are_closed)
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int) * 20)] = { 0 };
	struct iovec part = { (void *)(uintptr_t) "\4\0\0\0all", 7 };
	struct msghdr header = { .msg_iov = &part,
				 .msg_iovlen = 1,
				 .msg_control = control,
				 .msg_controllen = sizeof(control) };
	struct cmsghdr *c = CMSG_FIRSTHDR(&header);
	const uint64_t begun_ms = now_ms();
	int fd, given[20], other[20];

	old_kernel = true;
	host_open(8, nobody_else);
	fd = stranger();
	for (unsigned int i = 0; i < 20; i++)
		given[i] = lingering(&other[i]);
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(given));
	memcpy(CMSG_DATA(c), given, sizeof(given));
	cr_assert_geq(sendmsg(fd, &header, 0), 0, "%s", strerror(errno));
	for (unsigned int i = 0; i < 20; i++)
		close(given[i]);
	UNTIL(host.logged == 1);
	cr_expect_lt(now_ms() - begun_ms, LINGER_S * 1000 / 2, "a close was waited for");
	for (unsigned int i = 0; i < 20; i++)
		close(other[i]);
	close(fd);
}

/* Each counts against the limit of the publisher's user until it is received. */
Test(shm, stalled_peer_gets_a_bounded_number_of_regions)
{
	char body[FABRIC_MESSAGE_BYTES + 1];
	unsigned int sent = 0;
	int fd;

	host_open(4, nobody_else);
	fd = stranger();
	put_frame(fd, SHM_HELLO, 8);
	UNTIL(host.hellos == 1);
	while (sent < 1000 && shm_send(host.last, "grant", 5, host.exposure) == 0)
		sent++;
	cr_expect(sent >= FABRIC_UNANSWERED && sent <= 2 * FABRIC_UNANSWERED, "%u", sent);
	cr_expect_eq(shm_send(host.last, "grant", 5, host.exposure), -EAGAIN);
	cr_expect_eq(shm_send(host.last, "wake", 4, NULL), 0, "what has none with it is sent");
	cr_expect_eq(take(fd, body, sizeof(body)), SHM_WELCOME);
	for (unsigned int i = 0; i <= sent; i++)
		cr_expect_eq(take(fd, body, sizeof(body)), SHM_MESSAGE);
	for (unsigned int i = 0; i < 1000; i++) { /* messages are taken */
		cr_assert_eq(shm_send(host.last, "grant", 5, host.exposure), 0, "%s", tb_error());
		cr_assert_eq(take(fd, body, sizeof(body)), SHM_MESSAGE);
	}
	close(fd);
}

/* The peer takes in order, and always has as many regions untaken as it may have requests. Its
 * queue is never empty, and holds messages of all lengths. */
Test(shm, peer_that_takes_regions_in_order_gets_all)
{
	char body[FABRIC_MESSAGE_BYTES + 1];
	const char text[FABRIC_MESSAGE_BYTES] = "grant";
	unsigned int untaken = 1; /* the welcome */
	int fd;

	host_open(4, nobody_else);
	fd = stranger();
	put_frame(fd, SHM_HELLO, 8);
	UNTIL(host.hellos == 1);
	for (unsigned int i = 0; i < 1000; i++) {
		cr_assert_eq(shm_send(host.last, text, 1 + i * 7 % 1024, host.exposure), 0,
			     "region %u: %s", i, tb_error());
		cr_assert_eq(shm_send(host.last, "wake", 4, NULL), 0, "%s", tb_error());
		for (untaken += 2; untaken > 2 * FABRIC_UNANSWERED; untaken--)
			cr_assert_neq(take(fd, body, sizeof(body)), 0);
	}
	close(fd);
}

/* The limit is that of a user without privileges: a child's, whose hello cannot be answered with
 * the bus page. */
Test(shm, too_many_descriptors_in_flight_are_named)
{
	struct rlimit limit;
	unsigned int count = 0;

	if (geteuid() != 0 || chown(folder, SOMEONE, SOMEONE) < 0 ||
	    setresgid(SOMEONE, SOMEONE, SOMEONE) < 0 || setresuid(SOMEONE, SOMEONE, SOMEONE) < 0)
		cr_skip("only root can become a user that has none on their way yet");
	cr_assert_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
	limit.rlim_cur = descriptors() + 40;
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
	host_open(256, nobody_else);
	while (host.logged == 0) {
		const int fd = stranger();
		const unsigned int hellos = host.hellos;

		cr_assert_lt(++count, 40);
		put_frame(fd, SHM_HELLO, 8);
		UNTIL(host.hellos > hellos);
		while (host.logged == 0 && shm_send(host.last, "grant", 5, host.exposure) == 0)
			;
	}
	cr_expect(strstr(host.log, "was dropped: too many descriptors are in flight to "
				   "subscribers that do not read (see ulimit -n)"),
		  "%s", host.log);
	cr_expect_eq(host.kind, FABRIC_LOG_DROPPED);
	cr_assert_eq(shm_connect(&guest.link, "test", "hello", 5, &guest_calls, NULL), 0, "%s",
		     tb_error());
	UNTIL(guest.gones == 1);
	cr_expect_eq(guest.code, EAGAIN); /* a waiting client tries again */
	cr_expect_str_eq(guest.why, "too many descriptors are in flight to subscribers that do "
				    "not read (see ulimit -n)");
}

/* A child that only inherited the descriptors keeps connections open that are closed here. */
Test(shm, dropped_peer_ends_though_a_child_has_its_socket)
{
	int pipes[2], fd, status;
	pid_t child;
	char go;

	host_open(8, nobody_else);
	fd = stranger();
	put_frame(fd, SHM_HELLO, 8);
	UNTIL(host.hellos == 1);
	cr_assert_eq(pipe(pipes), 0);
	child = fork();
	if (child == 0) {
		close(pipes[1]);
		_exit(read(pipes[0], &go, 1) == 0 ? 0 : 1);
	}
	close(pipes[0]);
	peers_drop(host.last, "the test says so");
	cr_expect_eq(host.kind, FABRIC_LOG_DROPPED);
	for (unsigned int i = 0; i < 20; i++) {
		cr_expect_not(put(fd, "\4\0\0\0message", 11, 0), "its end is shut");
		turn();
	}
	cr_expect_eq(host.messages + host.gones, 0);
	guest_enter();
	expect_guest_well();
	close(pipes[1]);
	close(fd);
	cr_assert_eq(waitpid(child, &status, 0), child);
	cr_assert_eq(status, 0);
}
