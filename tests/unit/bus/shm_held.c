/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptors whose close waits, from hostile clients, on a kernel that cannot refuse them. */
#include <criterion/criterion.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "bus/shm/shm_frame.h"
#include "bus/shm/shm_hold.h"
#include "bus/shm/shm_porter.h"
#include "tests/support/hung_file.h"
#include "tests/support/old_kernel.h"
#include "tests/unit/bus/shm_scene.h"
#include "tickbus/error.h"

TestSuite(held, .init = enter, .fini = leave, .timeout = 60);

#define DROPPED "was dropped: it sent a frame with a descriptor, expected a "
#define CLIENTS 4
#define SLOTS   (CLIENTS + 256) /* with those that the porter may have still to close */

static void file_open(struct hung_file *file)
{
	const int result = hung_file_open(file, HUNG_WRITE);

	if (result < 0)
		cr_skip("no FUSE file here: %s", strerror(-result));
	old_kernel = true;
}

/* Sends a frame, whose descriptor hangs with hung_file_hang. */
static void put_file(int fd, const struct hung_file *file, uint32_t kind)
{
	uint8_t bytes[12] = { 0 };

	memcpy(bytes, &kind, sizeof(kind));
	cr_assert(put_with(fd, bytes, sizeof(bytes), file->fd, 1), "%s", strerror(errno));
}

static void hang(struct hung_file *file)
{
	close(file->fd);
	hung_file_hang(file);
}

/* A client in a hello, a client in a message, and a client whose descriptor waits behind a frame
 * that ends its connection. */
Test(held, control_thread_goes_on_while_closes_hang)
{
	struct hung_file file;
	int fds[3];

	file_open(&file);
	host_open(8, nobody_else);
	guest_enter();
	for (unsigned int i = 0; i < 3; i++) {
		fds[i] = stranger();
		if (i == 1)
			put_frame(fds[i], SHM_HELLO, 8);
		if (i == 2)
			put_frame(fds[i], SHM_REFUSAL, 8);
		put_file(fds[i], &file, i == 1 ? SHM_MESSAGE : SHM_HELLO);
	}
	hang(&file);
	UNTIL(host.logged == 3);
	for (unsigned int i = 0; i < 3; i++) {
		char byte;

		cr_expect_leq(recv(fds[i], &byte, 1, 0), 1, "its end is seen at once");
		close(fds[i]);
	}
	UNTIL(*file.asked > 0);
	expect_guest_well();
	guest_leave();
	guest_enter();
	expect_guest_well();
	guest_leave();
	host_close(); /* never waits */
	hung_file_close(&file);
}

Test(held, frame_with_a_descriptor_names_its_sender)
{
	char expected[128];
	int fd;

	old_kernel = true;
	host_open(8, nobody_else);
	fd = stranger();
	cr_assert(put(fd, "\1\0\0\0hello", 9, 1));
	UNTIL(host.logged == 1);
	snprintf(expected, sizeof(expected), "pid %d of user %u " DROPPED "hello", (int)getpid(),
		 (unsigned int)geteuid());
	cr_expect(strstr(host.log, expected), "%s", host.log);
	cr_expect_eq(host.kind, FABRIC_LOG_DROPPED);
	close(fd);
}

/* A publisher in a process of its own, which the test may kill. */
static pid_t publisher_fork(void)
{
	int ready[2];
	pid_t child;
	char byte;

	cr_assert_eq(pipe(ready), 0);
	child = fork();
	if (child == 0) {
		host_open(8, nobody_else);
		if (write(ready[1], "r", 1) != 1)
			_exit(1);
		close(ready[0]);
		close(ready[1]);
		for (;;)
			turn();
	}
	close(ready[1]);
	cr_assert_eq(read(ready[0], &byte, 1), 1);
	close(ready[0]);
	return child;
}

/* Descriptors wait in a connection that was not accepted, and behind frames in others. */
Test(held, publisher_with_hanging_descriptors_ends_on_kill)
{
	struct hung_file file;
	char byte;
	int fds[3], status;
	pid_t child;

	old_kernel = true;
	child = publisher_fork();
	file_open(&file);
	fds[0] = stranger();
	put_frame(fds[0], SHM_HELLO, 8);
	cr_assert_gt(recv(fds[0], &byte, 1, 0), 0, "the welcome");
	kill(child, SIGSTOP);
	cr_assert_eq(waitpid(child, &status, WUNTRACED), child);
	put_file(fds[0], &file, SHM_MESSAGE);
	for (unsigned int i = 1; i < 3; i++) {
		fds[i] = stranger(); /* not accepted */
		put_file(fds[i], &file, SHM_HELLO);
	}
	hang(&file);
	kill(child, SIGKILL);
	UNTIL(waitpid(child, &status, WNOHANG) == child);
	for (unsigned int i = 0; i < 3; i++) {
		while (recv(fds[i], &byte, 1, 0) > 0)
			;
		close(fds[i]); /* each saw the end */
	}
	UNTIL(*file.asked > 0);
	host_open(8, nobody_else); /* the address is free */
	guest_enter();
	expect_guest_well();
	guest_leave();
	hung_file_close(&file);
}

Test(held, porter_that_ended_is_started_again)
{
	struct hung_file file;
	int fd;

	file_open(&file);
	host_open(8, nobody_else);
	fd = stranger();
	put_frame(fd, SHM_HELLO, 8);
	UNTIL(host.hellos == 1);
	porter_signal(SIGKILL);
	UNTIL(host.logged == 1);
	cr_expect_str_eq(host.log, "the process that shares the connections ended, and was started "
				   "again");
	put_file(fd, &file, SHM_MESSAGE);
	hang(&file);
	UNTIL(host.gones == 1);
	close(fd); /* with the welcome's descriptor, which it did not take */
	UNTIL(*file.asked > 0);
	guest_enter();
	expect_guest_well();
	guest_leave();
	hung_file_close(&file);
}

static bool hold_has_room(struct shm_hold *hold)
{
	shm_hold_poll(hold);
	return shm_hold_room(hold);
}

/* Connections that the porter has not closed yet are bounded. */
Test(held, connections_have_a_bounded_number_of_slots)
{
	const int listening = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	uint32_t slots[SLOTS];
	int fds[SLOTS][2];
	struct shm_hold hold;

	old_kernel = true;
	cr_assert_eq(shm_hold_open(&hold, listening, "test", CLIENTS), 0, "%s", tb_error());
	for (unsigned int i = 0; i < SLOTS; i++) {
		cr_assert(shm_hold_room(&hold), "%u", i);
		cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds[i]), 0);
		slots[i] = shm_hold_add(&hold, fds[i][0]);
	}
	cr_expect_not(shm_hold_room(&hold));
	for (unsigned int i = 0; i < SLOTS; i++) {
		shm_hold_end(&hold, slots[i], fds[i][0]);
		close(fds[i][1]);
	}
	UNTIL(hold_has_room(&hold));
	shm_hold_close(&hold);
	close(listening);
}

/* The porter has no descriptor left for the pipe to its child. Later it has, and no message comes.
 */
Test(held, porter_that_cannot_start_a_child_tries_again)
{
	const int listening = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	char held[64], what[64];
	struct rlimit before, few;
	struct shm_hold hold;
	int fds[2];
	pid_t porter;
	uint32_t slot;

	old_kernel = true;
	cr_assert_eq(shm_hold_open(&hold, listening, "test", CLIENTS), 0, "%s", tb_error());
	cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds), 0);
	slot = shm_hold_add(&hold, fds[0]);
	porter = porter_process();
	snprintf(held, sizeof(held), "/proc/%d/fd/%d", (int)porter, PORTER_SOCKET + 1);
	UNTIL(readlink(held, what, sizeof(what)) > 0);
	cr_assert_eq(prlimit(porter, RLIMIT_NOFILE, NULL, &before), 0);
	few = (struct rlimit){ PORTER_SOCKET + 1, before.rlim_max };
	cr_assert_eq(prlimit(porter, RLIMIT_NOFILE, &few, NULL), 0);
	cr_assert(put_with(fds[1], "x", 1, fds[1], 1));
	shm_hold_end(&hold, slot, fds[0]);
	usleep(100000);
	cr_expect_gt(readlink(held, what, sizeof(what)), 0, "a child closes it");
	cr_assert_eq(prlimit(porter, RLIMIT_NOFILE, &before, NULL), 0);
	UNTIL(readlink(held, what, sizeof(what)) < 0);
	shm_hold_close(&hold);
	close(fds[1]);
	close(listening);
}
