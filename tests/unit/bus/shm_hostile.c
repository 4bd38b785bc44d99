/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptors whose close waits, from a hostile publisher. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "bus/shm/shm_frame.h"
#include "bus/shm/shm_porter.h"
#include "tests/support/clock.h"
#include "tests/support/hung_file.h"
#include "tests/unit/bus/shm_scene.h"
#include "tickbus/error.h"

static unsigned int waits; /* calls of poll() that may wait */

int __real_poll(struct pollfd *list, nfds_t count, int timeout_ms);
int __wrap_poll(struct pollfd *list, nfds_t count, int timeout_ms);

int __wrap_poll(struct pollfd *list, nfds_t count, int timeout_ms)
{
	waits += timeout_ms != 0;
	return __real_poll(list, count, timeout_ms);
}

/* A publisher that sends a descriptor as soon as a socket connects, unless this is -1. */
static int hasty = -1;
static unsigned int sent;

int __real_connect(int fd, const struct sockaddr *at, socklen_t bytes);
int __wrap_connect(int fd, const struct sockaddr *at, socklen_t bytes);

int __wrap_connect(int fd, const struct sockaddr *at, socklen_t bytes)
{
	const int result = __real_connect(fd, at, bytes);
	const int peer = result == 0 && hasty >= 0 ? accept4(hasty, NULL, NULL, SOCK_CLOEXEC) : -1;

	if (peer >= 0) {
		sent += put(peer, "x", 1, 1);
		close(peer);
	}
	return result;
}

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

/* Makes as many porters hang as may. The descriptor waits in a queue: starting a porter copies and
 * closes this process' own. The test's clock says that the time passed in which a porter may still
 * end. */
static void crowd(int listening, struct hung_file *file)
{
	int stash[2];

	file_open(file, HUNG_FLUSH);
	cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, stash), 0);
	for (unsigned int count = 0; count < 8; count++)
		cr_assert(put_with(stash[0], "x", 1, file->fd, 1), "%s", strerror(errno));
	close(file->fd);
	for (unsigned int count = 0; count < 8; count++) {
		const int fd = liar_accept(listening);

		*file->hangs = false;
		file->fd = unstash(stash[1]);
		put_hanging(fd, file, SHM_WELCOME, 1);
		UNTIL(guest.gones == 1);
		cr_expect_str_eq(guest.why, NO_MEMFD);
		close(fd);
		guest_leave();
		UNTIL(*file->asked == count + 1);
	}
	close(stash[0]);
	close(stash[1]);
	clock_pass(1000);
}

/* The socket that finds out which user listens takes nothing, so no porter has to close it. */
Test(hostile, hanging_porters_are_bounded_and_counted)
{
	const int listening = liar_listen();
	struct hung_file file;
	char words[256];

	crowd(listening, &file);
	hasty = listening;
	cr_expect_eq(shm_connect(&guest.link, "test", "hello", 5, &guest_calls, NULL), -EAGAIN);
	snprintf(words, sizeof(words),
		 "address shm:test: cannot connect (%s: 8 processes that close descriptors of user "
		 "%u hang, at most 8 may: the user sent descriptors that cannot be closed)",
		 folder, (unsigned int)geteuid());
	cr_expect_str_eq(tb_error(), words);
	cr_expect_eq(sent, 0, "no porter can close what is sent");
	hasty = -1;
	hung_file_close(&file);
	UNTIL(shm_porter_reap() == 0);
	close(liar_accept(listening));
	close(listening);
}

/* A hostile publisher must not cut the program off from others. */
Test(hostile, porters_of_a_hostile_publisher_leave_room_for_other_names)
{
	const struct fabric_listen how = { .address = "honest", .peers_max = 4 };
	const int listening = liar_listen();
	struct hung_file file;

	crowd(listening, &file);
	cr_assert_eq(shm_listen(&host.listener, &how, &host_calls, NULL), 0, "%s", tb_error());
	cr_assert_eq(shm_connect(&guest.link, "honest", "hello", 5, &guest_calls, NULL), 0, "%s",
		     tb_error());
	UNTIL(host.hellos == 1);
	hung_file_close(&file);
	guest_leave();
	close(listening);
	UNTIL(shm_porter_reap() == 0);
}

/* The next user's publisher takes the address of a hostile user. */
Test(hostile, porters_of_a_hostile_user_leave_room_for_other_users)
{
	int listening = liar_listen(), status;
	struct sockaddr_un at;
	struct hung_file file;
	pid_t child;

	if (!may_be_others())
		cr_skip("this user may not become other users");
	crowd(listening, &file);
	close(listening);
	unlink(socket_address().sun_path);
	listening = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	at = socket_address();
	cr_assert_eq(bind(listening, (struct sockaddr *)&at, sizeof(at)), 0, "%s", strerror(errno));
	child = fork();
	if (child == 0)
		_exit(setresuid(SOMEONE, SOMEONE, SOMEONE) < 0 || listen(listening, 8) < 0);
	cr_assert_eq(waitpid(child, &status, 0), child);
	cr_assert_eq(status, 0);
	cr_expect_eq(shm_connect(&guest.link, "test,user=65421", "hello", 5, &guest_calls, NULL), 0,
		     "%s", tb_error());
	hung_file_close(&file);
	guest_leave();
	close(listening);
	UNTIL(shm_porter_reap() == 0);
}

/* A program that polls goes on at once. */
Test(hostile, link_never_waits_for_a_porter_that_hangs)
{
	const int listening = liar_listen(), fd = liar_accept(listening);
	struct hung_file file;

	file_open(&file, HUNG_FLUSH);
	put_hanging(fd, &file, SHM_WELCOME, 1);
	UNTIL(guest.gones == 1);
	waits = 0;
	guest_leave();
	cr_expect_eq(waits, 0);
	UNTIL(*file.asked == 1);
	cr_expect_eq(shm_porter_reap(), 1);
	hung_file_close(&file);
	close(fd);
	close(listening);
	UNTIL(shm_porter_reap() == 0);
}

/* A program that closes waits for the end, and then nothing is left. */
Test(hostile, link_that_settled_leaves_no_porter)
{
	const int listening = liar_listen(), fd = liar_accept(listening);

	shm_link_break(guest.link);
	waits = 0;
	shm_link_settle(guest.link);
	cr_expect_eq(waits, 1);
	guest_leave();
	cr_expect_eq(waits, 1);
	close(fd);
	close(listening);
	UNTIL(shm_porter_reap() == 0);
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

/* Two pages, of which the first is missing if `holed`, and as many blocks beyond the end. */
static int memory_with_more(bool holed)
{
	const off_t page = REGION_BYTES / 2;
	const int fd = memfd();
	static const char bytes[REGION_BYTES];

	cr_assert_eq(ftruncate(fd, REGION_BYTES), 0);
	cr_assert_eq(pwrite(fd, bytes, (size_t)page, page), page);
	if (!holed)
		cr_assert_eq(pwrite(fd, bytes, (size_t)page, 0), page);
	cr_assert_eq(fallocate(fd, FALLOC_FL_KEEP_SIZE, REGION_BYTES, REGION_BYTES), 0);
	cr_assert_eq(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE), 0);
	return fd;
}

/* The reader would pay for the page. */
Test(hostile, hole_in_memory_with_blocks_beyond_its_end_ends_the_link)
{
	const int listening = liar_listen(), fd = liar_accept(listening);
	const int given = memory_with_more(true);
	struct stat before, after;

	cr_assert_eq(fstat(given, &before), 0);
	cr_assert_geq(before.st_blocks * 512, REGION_BYTES, "the blocks show the hole");
	cr_assert(put_with(fd, "\2\0\0\0hole", 8, given, 1));
	UNTIL(guest.gones == 1);
	cr_expect_eq(guest.code, EPROTO);
	cr_expect_str_eq(guest.why, "memory handed over: found no page at byte 0, expected all "
				    "pages of its 8192 bytes");
	cr_assert_eq(fstat(given, &after), 0);
	cr_expect_eq(after.st_blocks, before.st_blocks, "the reader paid for a page");
	close(given);
	close(fd);
	close(listening);
	guest_leave();
	UNTIL(shm_porter_reap() == 0);
}

Test(hostile, memory_without_a_hole_and_with_blocks_beyond_its_end_is_used)
{
	const int listening = liar_listen(), fd = liar_accept(listening);
	const int given = memory_with_more(false);

	cr_assert(put_with(fd, "\2\0\0\0full", 8, given, 1));
	UNTIL(guest.welcomes == 1);
	cr_expect_eq(guest.opened, 0, "%s", tb_error());
	cr_expect_eq(guest.gones, 0);
	close(given);
	close(fd);
	close(listening);
	guest_leave();
	UNTIL(shm_porter_reap() == 0);
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
	clock_pass(1000);
	shm_link_poll(guest.link);
	cr_expect_eq(guest.gones, 0, "it is called first");
	clock_pass(2000);
	waits = 0;
	shm_link_poll(guest.link);
	cr_expect_eq(waits, 0, "it waits for the porter");
	cr_expect_eq(guest.gones, 0, "the clock may have jumped");
	clock_pass(100);
	shm_link_poll(guest.link);
	cr_expect_eq(waits, 0, "it waits for the porter");
	cr_assert_eq(guest.gones, 1);
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

/* The test's clock jumps while the porter is stopped, and it answers afterwards. */
Test(hostile, porter_that_answers_after_a_jump_of_the_clock_is_heard)
{
	const int listening = liar_listen(), fd = liar_accept(listening), given = memfd();

	put_frame(fd, SHM_WELCOME, 8);
	UNTIL(guest.welcomes == 1);
	porter_signal(SIGSTOP);
	cr_assert(put_with(fd, "\4\0\0\0stop", 8, given, 1));
	turn();
	clock_stop();
	for (int i = 0; i < 2; i++) {
		clock_pass(3000);
		shm_link_poll(guest.link);
	}
	porter_signal(SIGCONT);
	UNTIL(guest.messages == 1);
	cr_expect_eq(guest.gones, 0);
	close(given);
	close(fd);
	close(listening);
	guest_leave();
	UNTIL(shm_porter_reap() == 0);
}

/* After a frame with memory the porter waits for more of them. */
Test(hostile, porter_that_waits_for_nothing_answers_a_call)
{
	const int listening = liar_listen(), fd = liar_accept(listening), given = memfd();
	struct pollfd readable = { .fd = shm_link_fd(guest.link), .events = POLLIN };

	put_frame(fd, SHM_WELCOME, 8);
	UNTIL(guest.welcomes == 1);
	for (unsigned int i = 1; i <= 2; i++) {
		cr_assert(put_with(fd, "\4\0\0\0wait", 8, given, 1));
		UNTIL(guest.messages == i);
	}
	clock_stop();
	clock_pass(1000);
	shm_link_poll(guest.link);
	cr_assert_eq(__real_poll(&readable, 1, (int)deadline_ms()), 1, "it answers the call");
	shm_link_poll(guest.link);
	clock_pass(10000);
	shm_link_poll(guest.link);
	cr_expect_eq(guest.gones, 0, "%s", guest.why);
	porter_signal(SIGSTOP);
	put_frame(fd, SHM_MESSAGE, 8);
	UNTIL(guest.messages == 3);
	porter_signal(SIGCONT);
	close(given);
	close(fd);
	close(listening);
	guest_leave();
	UNTIL(shm_porter_reap() == 0);
}

/* The porter has done its work when it reads the call. */
Test(hostile, call_that_is_over_changes_nothing)
{
	const int listening = liar_listen(), fd = liar_accept(listening), given = memfd();

	put_frame(fd, SHM_WELCOME, 8);
	UNTIL(guest.welcomes == 1);
	porter_signal(SIGSTOP);
	cr_assert(put_with(fd, "\4\0\0\0late", 8, given, 1));
	put_frame(fd, SHM_MESSAGE, 8);
	turn();
	clock_stop();
	clock_pass(1000);
	shm_link_poll(guest.link);
	porter_signal(SIGCONT);
	UNTIL(guest.messages == 2);
	cr_assert(put_with(fd, "\4\0\0\0more", 8, given, 1));
	UNTIL(guest.messages == 3);
	cr_expect_eq(guest.gones, 0, "%s", guest.why);
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
	const struct shm_origin origin = { .path = "test" };
	struct shm_porter *porter;

	if (__lsan_disable)
		__lsan_disable();
	pthread_cancel(pthread_self());
	shm_porter_start(&porter, PORTER_TAKE, *(int *)socket, &origin);
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
