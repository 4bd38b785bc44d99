/* SPDX-License-Identifier: Apache-2.0 */
/* Wrong and random frames at the socket of shared memory, from clients and from a publisher. */
#include <criterion/criterion.h>
#include <errno.h>
#include <poll.h>
#include <unistd.h>

#include "bus/shm/shm_frame.h"
#include "bus/shm/shm_porter.h"
#include "tests/support/random.h"
#include "tickbus/error.h"
#include "tests/unit/bus/shm_scene.h"

TestSuite(shm, .init = enter, .fini = leave, .timeout = 60);

Test(shm, wrong_frame_ends_the_connection_and_is_logged)
{
	static const struct {
		unsigned int hellos; /* before it */
		uint32_t kind;
		size_t body;
		const char *words;
	} wrong[] = {
		{ 0, 0, 8, "it sent a frame of another kind, expected a hello" },
		{ 0, SHM_WELCOME, 8, "it sent a frame of another kind, expected a hello" },
		{ 0, SHM_REFUSAL, 8, "it sent a frame of another kind, expected a hello" },
		{ 0, SHM_MESSAGE, 8, "it sent a frame of another kind, expected a hello" },
		{ 0, UINT32_MAX, 8, "it sent a frame of another kind, expected a hello" },
		{ 0, SHM_HELLO, 0, "it sent a frame of a wrong size, expected a hello" },
		{ 0, SHM_HELLO, 1025, "it sent a frame of a wrong size, expected a hello" },
		{ 1, SHM_HELLO, 8, "it sent a frame of another kind, expected a control message" },
		{ 1, SHM_WELCOME, 8,
		  "it sent a frame of another kind, expected a control message" },
		{ 1, SHM_MESSAGE, 0,
		  "it sent a frame of a wrong size, expected a control message" },
		{ 1, SHM_MESSAGE, 1025,
		  "it sent a frame of a wrong size, expected a control message" },
		{ 1, SHM_MESSAGE, 2000,
		  "it sent a frame of a wrong size, expected a control message" },
	};
	char words[256], body[FABRIC_MESSAGE_BYTES + 1];

	host_open(8, nobody_else);
	guest_enter();
	for (unsigned int i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		int fd = stranger();

		if (wrong[i].hellos)
			put_frame(fd, SHM_HELLO, 8);
		put_frame(fd, wrong[i].kind, wrong[i].body);
		UNTIL(host.logged == i + 1);
		snprintf(words, sizeof(words), "pid %d of user %u was dropped: %s", (int)getpid(),
			 (unsigned int)geteuid(), wrong[i].words);
		cr_expect_str_eq(host.log, words);
		cr_expect_eq(host.kind, FABRIC_LOG_DROPPED);
		if (wrong[i].hellos)
			cr_expect_eq(take(fd, body, sizeof(body)), SHM_WELCOME);
		cr_expect_eq(take(fd, body, sizeof(body)), 0);
		close(fd);
	}
	cr_expect_eq(host.gones, host.hellos - 1, "gone is called for each accepted peer");
	expect_guest_well();
}

/* At most two hellos, within the time of the first. */
Test(shm, second_first_hello_is_refused)
{
	char body[FABRIC_MESSAGE_BYTES + 1];
	int fd;

	host_open(8, nobody_else);
	host.challenging = true;
	fd = stranger();
	put_frame(fd, SHM_HELLO, 8);
	UNTIL(poll(&(struct pollfd){ .fd = fd, .events = POLLIN }, 1, 0) == 1);
	cr_assert_eq(take(fd, body, sizeof(body)), SHM_CHALLENGE);
	for (size_t i = 0; i < FABRIC_CHALLENGE_BYTES; i++)
		cr_expect_eq(body[i], 'c');
	put_frame(fd, SHM_HELLO, 8);
	UNTIL(host.logged == 1);
	cr_assert_eq(take(fd, body, sizeof(body)), SHM_REFUSAL);
	cr_expect_str_eq(body + 4,
			 "it sent a first hello again, expected an answer to the challenge");
	cr_assert_eq(take(fd, body, sizeof(body)), 0);
	close(fd);
	cr_expect_eq(host.gones + host.hellos, 0);
	host.challenging = false;
	guest_enter();
	expect_guest_well();
}

/* A program that has read enough closes: that is no error in the log. */
Test(shm, peer_that_closed_before_a_message_is_gone)
{
	char body[FABRIC_MESSAGE_BYTES + 1];

	host_open(8, nobody_else);
	guest_enter();
	for (unsigned int i = 0; i < 4; i++) {
		const bool stays = i % 2;
		int fd = stranger();

		put_frame(fd, SHM_HELLO, 8);
		UNTIL(host.hellos == i + 2);
		if (i < 2)
			cr_expect_eq(take(fd, body, sizeof(body)), SHM_WELCOME);
		put_frame(fd, SHM_MESSAGE, 8);
		cr_assert_eq(stays ? shutdown(fd, SHUT_RD) : close(fd), 0);
		for (int sends = 0; sends < 2; sends++)
			cr_expect_eq(shm_send(host.last, "farewell", 8, host.exposure), 0, "%s",
				     tb_error());
		UNTIL(host.gones == i + 1);
		if (stays)
			close(fd);
	}
	expect_guest_well();
	cr_expect_eq(host.messages, 4 + 1, "what they sent before was taken");
	cr_expect_eq(host.logged, 0, "%s", host.log);
}

/* The welcome finds a socket that takes nothing. */
Test(shm, peer_that_receives_nothing_after_its_hello_is_gone)
{
	int fd;

	host_open(8, nobody_else);
	fd = stranger();
	put_frame(fd, SHM_HELLO, 8);
	cr_assert_eq(shutdown(fd, SHUT_RD), 0);
	UNTIL(host.gones == 1);
	cr_expect_eq(host.hellos, 1);
	cr_expect_eq(host.logged, 0, "%s", host.log);
	close(fd);
}

/* A frame of any length and kind, with some descriptors. */
static bool put_random(int fd)
{
	uint8_t bytes[1500];
	const uint32_t kind = random_below(&random_state, 4) == 0
				      ? (uint32_t)random_below(&random_state, KINDS)
				      : (uint32_t)SHM_MESSAGE;
	size_t length =
		random_below(&random_state, random_below(&random_state, 2) ? 16 : sizeof(bytes));

	random_fill(&random_state, bytes, length);
	if (length >= 4 && random_below(&random_state, 16) != 0)
		memcpy(bytes, &kind, 4);
	return put(fd, bytes, length, (unsigned int)random_below(&random_state, 6));
}

Test(shm, random_client_frames_leave_nothing)
{
	int open[32] = { 0 };
	unsigned int before;

	host_open(128, nobody_else);
	guest_enter();
	before = descriptors();
	for (unsigned int round = 0; round < 4000; round++) {
		int *slot = &open[random_below(&random_state, 32)];

		if (*slot == 0) {
			*slot = stranger();
			if (random_below(&random_state, 2))
				put_frame(*slot, SHM_HELLO, 1 + random_below(&random_state, 1024));
		}
		for (size_t frames = random_below(&random_state, 12); frames > 0; frames--)
			put_random(*slot);
		if (random_below(&random_state, 2)) {
			close(*slot);
			*slot = 0;
		}
		shm_listener_poll(host.listener);
		if (round % 500 == 0) {
			guest_leave();
			guest_enter();
			expect_guest_well();
		}
	}
	for (size_t i = 0; i < 32; i++)
		if (open[i])
			close(open[i]);
	cr_assert(host.logged > 100 && host.hellos > 100 && host.messages > 100,
		  "%u logged, %u hellos, %u messages", host.logged, host.hellos, host.messages);
	UNTIL(host.gones == host.hellos - 1 && shm_porter_reap() == 0 && descriptors() == before);
}

Test(shm, wrong_publisher_frame_ends_the_link)
{
	static const struct {
		bool welcome; /* before it */
		const char *bytes;
		size_t length;
		int code;
		const char *why;
	} wrong[] = {
#define UNEXPECTED "the publisher sent an unexpected frame"
#define SIZE       "the publisher sent a frame of a wrong size"
		{ false, "\4\0\0\0message", 11, EPROTO, UNEXPECTED },
		{ false, "\1\0\0\0hello", 9, EPROTO, UNEXPECTED },
		{ false, "\0\0\0\0hello", 9, EPROTO, UNEXPECTED },
		{ true, "\2\0\0\0welcome", 11, EPROTO, UNEXPECTED },
		{ true, "\xff\xff\xff\xff!", 5, EPROTO, UNEXPECTED },
		{ false, "\2\0\0\0", 4, EPROTO, SIZE },
		{ false, "\2", 1, EPROTO, SIZE },
		{ true, "\4\0\0", 3, EPROTO, SIZE },
		{ false, "\3\0\0\0\1\0", 6, EPROTO, "refused without a valid reason" },
		{ false, "\3\0\0\0\15\0\0\0no~\n\xff", 13, EACCES, "no~??" },
		{ true, "\3\0\0\0\15\0\0\0enough", 14, EACCES, "enough" },
		{ false, "\3\0\0\0\0\0\0\0nothing", 15, EPROTO, "nothing" },
		{ false, "\3\0\0\0\xff\xff\xff\xff!", 9, EPROTO, "!" },
	};
	int listening = liar_listen();
	uint8_t longest[4 + FABRIC_MESSAGE_BYTES + 1] = { SHM_REFUSAL, 0, 0, 0, EACCES };

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		int fd = liar_accept(listening);

		if (wrong[i].welcome)
			put_frame(fd, SHM_WELCOME, 8);
		cr_assert(put(fd, wrong[i].bytes, wrong[i].length, 0));
		UNTIL(guest.gones == 1);
		cr_expect_eq(guest.code, wrong[i].code, "%zu", i);
		cr_expect_str_eq(guest.why, wrong[i].why);
		close(fd);
		guest_leave();
	}
	/* A reason longer than any, and a frame longer than any. */
	for (size_t length = 4 + 4 + FABRIC_REASON_BYTES; length <= sizeof(longest); length++) {
		int fd = liar_accept(listening);

		memset(longest + 8, 'r', sizeof(longest) - 8);
		cr_assert(put(fd, longest, length, 0));
		UNTIL(guest.gones == 1);
		if (length == 4 + 4 + FABRIC_REASON_BYTES)
			cr_expect_eq(strlen(guest.why), FABRIC_REASON_BYTES);
		else if (length < sizeof(longest))
			cr_expect_str_eq(guest.why, "refused without a valid reason");
		else
			cr_expect_str_eq(guest.why, SIZE);
		close(fd);
		guest_leave();
	}
	close(listening);
}

Test(shm, random_publisher_frames_leave_nothing)
{
	int listening = liar_listen();
	const unsigned int before = descriptors();
	unsigned int welcomed = 0, messages = 0, left = 0;

	for (unsigned int round = 0; round < 3000; round++) {
		int fd = liar_accept(listening);

		if (random_below(&random_state, 2))
			put_frame(fd, SHM_WELCOME, 1 + random_below(&random_state, 1024));
		for (size_t frames = random_below(&random_state, 12); frames > 0; frames--) {
			put_random(fd);
			shm_link_poll(guest.link);
		}
		for (size_t frames = random_below(&random_state, 4); frames > 0; frames--)
			put(fd, "", 0, 3); /* descriptors with nothing at all */
		cr_assert_leq(descriptors(), before + left + 5, "kept an unwanted descriptor");
		close(fd);
		UNTIL(guest.gones == 1);
		cr_assert(guest.opened < 0 || guest.welcomes == 0, "no memory came with it");
		welcomed += guest.welcomes;
		messages += guest.messages;
		guest_leave();
		left = shm_porter_reap();
		cr_assert_leq(descriptors(), before + left, "round %u", round);
	}
	UNTIL(shm_porter_reap() == 0 && descriptors() == before);
	cr_assert(welcomed > 100 && messages > 100, "%u welcomes, %u messages", welcomed, messages);
	close(listening);
}
