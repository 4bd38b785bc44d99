/* SPDX-License-Identifier: Apache-2.0 */
/* What the other side sent before it ended is there, although it left something unread. */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "bus/shm/shm_frame.h"
#include "bus/shm/shm_rights.h"
#include "tickbus/error.h"

static int subscriber;
static struct shm_frame frame;

/* A publisher that grants memory, sends a message and ends without reading a request. */
static void enter(void)
{
	const int memory = memfd_create("test", MFD_CLOEXEC);
	int ends[2];

	cr_assert_geq(memory, 0);
	cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
	subscriber = ends[1];
	cr_assert_eq(shm_frame_send(ends[0], SHM_MESSAGE, "grant", 5, memory), 0);
	cr_assert_eq(shm_frame_send(ends[0], SHM_MESSAGE, "more", 4, -1), 0);
	cr_assert_eq(shm_frame_send(subscriber, SHM_MESSAGE, "join", 4, -1), 0);
	close(ends[0]);
	close(memory);
}

static void leave(void)
{
	close(subscriber);
}

TestSuite(shm_rights, .init = enter, .fini = leave, .timeout = 60);

static void grant_take(void)
{
	int fd;

	cr_assert_eq(shm_frame_receive_given(subscriber, &frame, &fd), 5, "%s", tb_error());
	cr_expect_eq(memcmp(frame.body, "grant", 5), 0);
	cr_assert_geq(fd, 0);
	close(fd);
}

static void end_take(void)
{
	cr_expect_eq(shm_frame_receive(subscriber, &frame), -ECONNRESET);
	cr_expect_str_eq(tb_error(), "the other side closed the connection");
}

Test(shm_rights, frames_before_the_end_are_received)
{
	int fd;

	grant_take();
	cr_expect_eq(shm_frame_receive_given(subscriber, &frame, &fd), 4);
	cr_expect_eq(fd, -1);
	end_take();
}

Test(shm_rights, frames_before_the_end_are_looked_at)
{
	cr_expect_eq(shm_frame_receive(subscriber, &frame), -EPERM);
	grant_take();
	cr_expect_eq(shm_frame_receive(subscriber, &frame), 4);
	end_take();
}

/* Closing the socket would close the descriptor. */
Test(shm_rights, descriptor_before_the_end_is_not_drained)
{
	cr_expect_not(shm_rights_drain(subscriber));
	grant_take();
	cr_expect(shm_rights_drain(subscriber));
}
