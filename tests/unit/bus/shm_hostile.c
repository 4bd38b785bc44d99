/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptors whose close waits, from a hostile publisher. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "bus/shm/shm_frame.h"
#include "bus/shm/shm_porter.h"
#include "tests/support/clock.h"
#include "tests/support/hung_file.h"
#include "tests/unit/bus/shm_scene.h"
#include "tickbus/error.h"

/* A test that failed may have left a stopped porter. */
static void leave_all(void)
{
	porters_kill();
	leave();
}

TestSuite(hostile, .init = enter, .fini = leave_all, .timeout = 60);

#define NO_MEMFD "memory handed over: found a descriptor that is no memfd, expected sealed memory"

static void file_open(struct hung_file *file, enum hung_by by)
{
	const int result = hung_file_open(file, by);

	if (result < 0)
		cr_skip("no FUSE file here: %s", strerror(-result));
}

/* Sends a frame with copies of the file's descriptor, which hangs from now on. */
static void put_hanging(int fd, struct hung_file *file, uint32_t kind, unsigned int copies)
{
	uint8_t bytes[12] = { 0 };

	memcpy(bytes, &kind, sizeof(kind));
	cr_assert(put_with(fd, bytes, sizeof(bytes), file->fd, copies), "%s", strerror(errno));
	close(file->fd);
	hung_file_hang(file);
}

/* A frame of a hostile publisher ends the link with a message, though closing its descriptor hangs.
 */
static void expect_link_ends(enum hung_by by, bool welcomed, unsigned int copies, const char *why)
{
	struct hung_file file;
	int listening, fd;

	file_open(&file, by);
	listening = liar_listen();
	fd = liar_accept(listening);
	if (welcomed)
		put_frame(fd, SHM_WELCOME, 8);
	put_hanging(fd, &file, welcomed ? SHM_MESSAGE : SHM_WELCOME, copies);
	UNTIL(guest.gones == 1);
	cr_expect_eq(guest.code, EPROTO);
	cr_expect_str_eq(guest.why, why);
	close(fd);
	close(listening);
	guest_leave();
	UNTIL(*file.asked > 0);
	cr_expect_eq(shm_porter_reap(), 1, "the porter hangs in the subscriber's place");
	unlink(socket_address().sun_path);
	host_open(4, nobody_else);
	guest_enter(); /* the next connection works */
	expect_guest_well();
	hung_file_close(&file);
	guest_leave();
	UNTIL(shm_porter_reap() == 0);
}

Test(hostile, file_that_hangs_in_a_welcome_ends_the_link)
{
	expect_link_ends(HUNG_FLUSH, false, 1, NO_MEMFD);
}

Test(hostile, file_that_hangs_in_a_message_ends_the_link)
{
	expect_link_ends(HUNG_FLUSH, true, 1, NO_MEMFD);
}

Test(hostile, file_whose_last_close_hangs_ends_the_link)
{
	expect_link_ends(HUNG_WRITE, true, 1, NO_MEMFD);
}

Test(hostile, two_descriptors_end_the_link)
{
	expect_link_ends(HUNG_FLUSH, true, 2,
			 "memory handed over: found 2 descriptors, expected 1");
}

/* Makes the descriptor leave a queue. */
static int unstash(int from)
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))];
	char byte;
	struct iovec part = { &byte, 1 };
	struct msghdr header = { .msg_iov = &part,
				 .msg_iovlen = 1,
				 .msg_control = control,
				 .msg_controllen = sizeof(control) };
	int fd = -1;

	cr_assert_eq(recvmsg(from, &header, MSG_CMSG_CLOEXEC), 1);
	memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&header)), sizeof(fd));
	return fd;
}

/* The descriptor waits in a queue: starting a porter copies and closes this process' own. The
 * test's clock says that the time passed in which a porter may still end. */
Test(hostile, hanging_porters_are_bounded_and_counted)
{
	const int listening = liar_listen();
	struct pollfd waiting = { .fd = listening, .events = POLLIN };
	struct hung_file file;
	int stash[2];

	file_open(&file, HUNG_FLUSH);
	cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, stash), 0);
	for (unsigned int count = 0; count < 8; count++)
		cr_assert(put_with(stash[0], "x", 1, file.fd, 1), "%s", strerror(errno));
	close(file.fd);
	for (unsigned int count = 0; count < 8; count++) {
		const int fd = liar_accept(listening);

		*file.hangs = false;
		file.fd = unstash(stash[1]);
		put_hanging(fd, &file, SHM_WELCOME, 1);
		UNTIL(guest.gones == 1);
		cr_expect_str_eq(guest.why, NO_MEMFD);
		close(fd);
		guest_leave();
		UNTIL(*file.asked == count + 1);
	}
	clock_pass(1000);
	cr_expect_eq(shm_connect(&guest.link, "test", "hello", 5, &guest_calls, NULL), -EAGAIN);
	cr_expect_str_eq(tb_error(),
			 "address shm:test: 8 processes that close descriptors for this "
			 "one hang, at most 8 may: other processes sent descriptors "
			 "that cannot be closed");
	cr_expect_eq(poll(&waiting, 1, 0), 0, "it connected, and no porter can close the socket");
	hung_file_close(&file);
	UNTIL(shm_porter_reap() == 0);
	close(liar_accept(listening));
	close(listening);
	close(stash[0]);
	close(stash[1]);
}

/* A socket that lingers makes the porter alone wait. */
Test(hostile, lingering_socket_ends_the_link)
{
	int listening = liar_listen(), fd = liar_accept(listening), other, given;

	given = lingering(&other);
	cr_assert(put_with(fd, "\2\0\0\0linger", 10, given, 1), "%s", strerror(errno));
	close(given);
	UNTIL(guest.gones == 1);
	cr_expect_str_eq(guest.why, NO_MEMFD);
	guest_leave();
	close(other);
	close(fd);
	close(listening);
	UNTIL(shm_porter_reap() == 0);
}

static int memfd(void)
{
	const int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	cr_assert_geq(fd, 0);
	return fd;
}

/* The test's clock says that the time for an answer passed. */
Test(hostile, porter_without_an_answer_ends_the_link)
{
	const int listening = liar_listen(), fd = liar_accept(listening), given = memfd();

	put_frame(fd, SHM_WELCOME, 8);
	UNTIL(guest.welcomes == 1);
	porter_signal(SIGSTOP);
	cr_assert(put_with(fd, "\4\0\0\0stop", 8, given, 1));
	turn();
	cr_expect_eq(guest.gones, 0);
	clock_pass(3000);
	UNTIL(guest.gones == 1);
	cr_expect_eq(guest.code, EPIPE);
	cr_expect_str_eq(guest.why,
			 "the process that takes the descriptors of this connection hangs");
	porter_signal(SIGKILL);
	close(given);
	close(fd);
	close(listening);
	guest_leave();
	UNTIL(shm_porter_reap() == 0);
}

Test(hostile, porter_that_ended_ends_the_link)
{
	const int listening = liar_listen(), fd = liar_accept(listening), given = memfd();

	porter_signal(SIGKILL);
	cr_assert(put_with(fd, "\2\0\0\0kill", 8, given, 1));
	UNTIL(guest.gones == 1);
	cr_expect_eq(guest.code, EPIPE);
	cr_expect_str_eq(guest.why,
			 "the process that takes the descriptors of this connection ended");
	close(given);
	close(fd);
	close(listening);
}

/* The subscriber never reads what was sent to it. It sends its hello when it has a porter. */
Test(hostile, subscriber_with_hanging_descriptors_ends_on_kill)
{
	const int listening = liar_listen();
	struct hung_file file;
	char hello[16];
	int fd, status;
	pid_t child = fork();

	if (child == 0) {
		close(listening);
		if (shm_connect(&guest.link, "test", "hello", 5, &guest_calls, NULL) < 0)
			_exit(1);
		for (;;)
			pause();
	}
	fd = accept4(listening, NULL, NULL, SOCK_CLOEXEC);
	cr_assert_geq(fd, 0);
	cr_assert_gt(recv(fd, hello, sizeof(hello), 0), 0);
	file_open(&file, HUNG_WRITE);
	put_hanging(fd, &file, SHM_WELCOME, 1);
	kill(child, SIGKILL);
	UNTIL(waitpid(child, &status, WNOHANG) == child);
	UNTIL(*file.asked > 0); /* in the porter */
	hung_file_close(&file);
	close(fd);
	close(listening);
}

/* A process took the address of a publisher that starts. */
Test(hostile, process_at_the_address_cannot_send_to_a_publisher)
{
	const struct fabric_listen how = { .address = "test", .peers_max = 4 };
	const int listening = liar_listen();
	int pipes[2], code = 0;
	pid_t child;

	cr_assert_eq(pipe(pipes), 0);
	child = fork();
	if (child == 0) {
		const int fd = accept4(listening, NULL, NULL, SOCK_CLOEXEC);

		code = put(fd, "x", 1, 1) ? 0 : errno;
		if (write(pipes[1], &code, sizeof(code)) == sizeof(code))
			pause();
		_exit(1);
	}
	close(listening);
	cr_expect_eq(shm_listen(&host.listener, &how, &host_calls, NULL), -EADDRINUSE);
	cr_assert_eq(read(pipes[0], &code, sizeof(code)), sizeof(code));
	cr_expect_eq(code, EPIPE, "a descriptor was queued for the publisher");
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	close(pipes[0]);
	close(pipes[1]);
}

/* The application's own children are all that it can wait for. */
Test(hostile, application_sees_no_child)
{
	const int listening = liar_listen(), fd = liar_accept(listening);

	cr_expect_eq(waitpid(-1, NULL, WNOHANG), -1);
	cr_expect_eq(errno, ECHILD);
	close(fd);
	close(listening);
	guest_leave();
	UNTIL(shm_porter_reap() == 0);
}

/* Process 1 of a container takes the orphans too. */
Test(hostile, application_that_takes_orphans_keeps_no_zombie)
{
	const int listening = liar_listen();
	int fd;

	cr_assert_eq(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
	fd = liar_accept(listening);
	close(fd);
	close(listening);
	guest_leave();
	UNTIL(shm_porter_reap() == 0);
	cr_expect_eq(waitpid(-1, NULL, WNOHANG), -1);
	cr_expect_eq(errno, ECHILD);
}

/* The child has copies of all descriptors. */
Test(hostile, porter_ends_while_a_forked_child_lives)
{
	const int listening = liar_listen(), fd = liar_accept(listening);
	const pid_t child = fork();

	if (child == 0)
		for (;;)
			pause();
	guest_leave();
	UNTIL(shm_porter_reap() == 0);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	close(fd);
	close(listening);
}

/* The address sanitizer's, in its build alone. */
extern void __lsan_disable(void) __attribute__((weak));

/* A cancelled call leaves its memory behind. */
static void *cancelled_start(void *socket)
{
	struct shm_porter *porter;

	if (__lsan_disable)
		__lsan_disable();
	pthread_cancel(pthread_self());
	shm_porter_start(&porter, PORTER_TAKE, *(int *)socket);
	return NULL;
}

/* The processes that start the porter share the thread's memory, and must not end the thread. */
Test(hostile, thread_cancelled_while_a_porter_starts_ends_alone)
{
	pthread_t thread;
	void *result;
	int pairs[2];

	cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pairs), 0);
	cr_assert_eq(pthread_create(&thread, NULL, cancelled_start, &pairs[0]), 0);
	cr_assert_eq(pthread_join(thread, &result), 0);
	cr_expect_eq(result, PTHREAD_CANCELED);
	cr_expect_eq(waitpid(-1, NULL, WNOHANG | __WALL), -1, "a process was left");
	close(pairs[0]);
	close(pairs[1]);
}

Test(hostile, missing_program_is_named_in_the_error)
{
	const int listening = liar_listen();

	setenv("TICKBUS_LIBEXEC_DIR", "/nowhere", 1);
	cr_expect_eq(shm_connect(&guest.link, "test", "hello", 5, &guest_calls, NULL), -ENOEXEC);
	cr_expect_str_eq(tb_error(),
			 "address shm:test: cannot start /nowhere/tickbus-porter: No such file or "
			 "directory (TICKBUS_LIBEXEC_DIR can name its folder)");
	close(listening);
}
