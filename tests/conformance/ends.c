/* SPDX-License-Identifier: Apache-2.0 */
/* Links, peers and processes that end, over any fabric. */
#include <criterion/criterion.h>
#include <errno.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "tests/support/scene.h"
#include "tests/conformance/fabric_scene.h"

TestSuite(fabric, .init = enter, .fini = leave, .timeout = 60);

Test(fabric, broken_link_returns_its_outstanding_reads)
{
	unsigned int posted;

	host_open(4);
	guest_enter(&guests[0]);
	guest_enter(&guests[1]);
	posted = fill_with_reads(&guests[0]);
	ops->link_break(guests[0].link);
	guest_reap(&guests[0]);
	cr_assert_eq(guests[0].tally, posted);
	cr_expect_eq(ops->link_state(guests[0].link), LINK_GONE);
	cr_expect_eq(guest_read(&guests[0], 0, 8, 0, 1), -ENOTCONN);
	cr_expect_eq(ops->link_send(guests[0].link, "late", 4), -ENOTCONN);
	memset(guests[0].landing, 0xee, LANDING);
	UNTIL(host.gones == 1);
	expect_reads(&guests[1]);
	for (size_t i = 0; i < LANDING; i++)
		cr_assert_eq(guests[0].landing[i], 0xee, "landed at %zu", i);
	cr_expect_eq(guests[0].gones, 0, "gone was called after link_break");
	cr_expect_eq(guests[0].tally, posted);
}

Test(fabric, link_can_be_broken_inside_a_callback)
{
	host_open(4);
	guest_enter(&guests[0]);
	fill_with_reads(&guests[0]);
	guests[0].breaks = true;
	cr_assert_eq(ops->send(host.peers[0], "one", 3, NULL), 0);
	cr_assert_eq(ops->send(host.peers[0], "two", 3, NULL), 0);
	UNTIL(host.gones == 1);
	cr_expect_eq(guests[0].messages, 1, "a call after the break");
	cr_expect_eq(guests[0].gones, 0);
}

Test(fabric, link_can_be_closed_inside_a_callback)
{
	host_open(4);
	guest_enter(&guests[0]);
	guest_enter(&guests[1]);
	guests[0].closes = true;
	cr_assert_eq(ops->send(host.peers[0], "one", 3, NULL), 0);
	cr_assert_eq(ops->send(host.peers[0], "two", 3, NULL), 0);
	UNTIL(host.gones == 1);
	cr_expect_eq(guests[0].messages, 1, "a call after the close");
	cr_expect_null(guests[0].link);
	expect_reads(&guests[1]);
}

Test(fabric, dropped_peer_is_gone_once_and_gets_its_reads)
{
	unsigned int posted;

	host_open(4);
	guest_enter(&guests[0]);
	guest_enter(&guests[1]);
	posted = fill_with_reads(&guests[0]);
	ops->drop(host.peers[0], "the test says so");
	cr_expect_eq(host.logged, 1);
	cr_expect(strstr(host.log, "the test says so"), "%s", host.log);
	UNTIL(guests[0].gones == 1);
	cr_expect_eq(guests[0].code, ECONNRESET, "%s", guests[0].why);
	cr_expect_eq(guest_read(&guests[0], 0, 8, 0, 1), -ENOTCONN);
	ops->link_break(guests[0].link);
	guest_reap(&guests[0]);
	cr_expect_eq(guests[0].tally, posted);
	expect_reads(&guests[1]);
	expect_message(&guests[1]);
	cr_expect_eq(host.gones, 0, "gone was called after drop");
}

Test(fabric, peer_can_be_dropped_inside_a_callback)
{
	host_open(4);
	guest_enter(&guests[0]);
	host.drop = true;
	for (int i = 0; i < 3; i++)
		cr_assert_eq(ops->link_send(guests[0].link, "drop me", 7), 0);
	UNTIL(guests[0].gones == 1);
	cr_expect_eq(host.messages, 1, "a call after the drop");
	cr_expect_eq(host.gones, 0);
	host.drop = false;
	guest_enter(&guests[1]);
	expect_message(&guests[1]);
}

Test(fabric, closing_publisher_ends_every_link)
{
	unsigned int posted;

	host_open(4);
	guest_enter(&guests[0]);
	guest_enter(&guests[1]);
	posted = fill_with_reads(&guests[0]);
	host_close();
	UNTIL(guests[0].gones == 1 && guests[1].gones == 1);
	cr_expect_eq(guests[0].code, ECONNRESET, "%s", guests[0].why);
	ops->link_break(guests[0].link);
	guest_reap(&guests[0]);
	cr_expect_eq(guests[0].tally, posted);
}

Test(fabric, messages_before_a_drop_arrive)
{
	host_open(4);
	guest_enter(&guests[0]);
	for (int i = 0; i < 4; i++)
		cr_assert_eq(ops->link_send(guests[0].link, "unread", 6), 0);
	for (uint32_t number = 0; number < 4; number++)
		cr_assert_eq(ops->send(host.peers[0], &number, sizeof(number), NULL), 0);
	if (ops->network)
		UNTIL(guests[0].expected == 4); /* a network may lose untaken messages */
	ops->drop(host.peers[0], "the test says so");
	UNTIL(guests[0].gones == 1);
	cr_expect_eq(guests[0].expected, 4);
}

/* Forks a child that calls run when a byte is written to *begin. Call it before this process uses
 * the fabric. Criterion does not know the child: a check that fails there ends this process by a
 * signal, without a message. */
static pid_t process(void (*run)(void), int *begin)
{
	int pipes[2];
	pid_t child;
	char go;

	cr_assert_eq(pipe(pipes), 0);
	child = fork();
	cr_assert_geq(child, 0);
	*begin = pipes[1];
	if (child > 0) {
		close(pipes[0]);
		return child;
	}
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	close(pipes[1]);
	if (read(pipes[0], &go, 1) == 1)
		run();
	_exit(1);
}

static void process_kill(pid_t child, int begin)
{
	int status;

	close(begin);
	cr_assert_eq(kill(child, SIGKILL), 0);
	cr_assert_eq(waitpid(child, &status, 0), child);
	cr_assert(WIFSIGNALED(status), "it ended before it was killed: status %x", status);
}

/* It comes again where a busy machine was too slow for the first connection. */
static void as_guest(void)
{
	struct guest *guest = &guests[0];

	for (;; turn()) {
		if (guest->gones)
			guest_leave(guest);
		if (!guest->link && guest_try(guest, "hello", 5) < 0)
			guest->link = NULL;
		if (guest->welcomes && !guest->landing)
			guest->landing = ops->landing(guest->link, LANDING);
		if (!guest->landing)
			continue;
		guest_reap(guest);
		guest_read(guest, 0, 4096, 0, 1);
	}
}

Test(fabric, killed_subscriber_is_gone_and_others_go_on)
{
	pid_t children[4];
	int begin[4];

	for (unsigned int i = 0; i < 4; i++)
		children[i] = process(as_guest, &begin[i]);
	host_open(8);
	guest_enter(&guests[1]);
	for (unsigned int i = 0; i < 4; i++) {
		const unsigned int before = host.hellos;

		cr_assert_eq(write(begin[i], "!", 1), 1);
		UNTIL(host.hellos > before);
		process_kill(children[i], begin[i]);
		UNTIL(host.gones + 1 == host.hellos);
		cr_expect_eq(ops->send(host.peers[0], "you?", 4, NULL), 0);
		expect_reads(&guests[1]);
		UNTIL(guests[1].messages == i + 1);
	}
	cr_expect_eq(guests[1].gones, 0);
}

static void as_host(void)
{
	if (host_begin(8) < 0)
		_exit(2);
	for (;;)
		turn();
}

Test(fabric, killed_publisher_is_gone_and_its_address_free)
{
	int begin;
	const pid_t child = process(as_host, &begin);
	const uint64_t until_ms = scene_now_ms() + deadline_ms();
	unsigned int posted;

	cr_assert_eq(write(begin, "!", 1), 1);
	while (!guests[0].welcomes) { /* it listens at some time from now on */
		cr_assert_lt(scene_now_ms(), until_ms);
		if (guests[0].link)
			turn();
		if (guests[0].gones)
			guest_leave(&guests[0]);
		if (!guests[0].link && guest_try(&guests[0], "hello", 5) < 0)
			guests[0].link = NULL;
	}
	guests[0].landing = ops->landing(guests[0].link, LANDING);
	expect_reads(&guests[0]);
	posted = fill_with_reads(&guests[0]);
	process_kill(child, begin);
	UNTIL(guests[0].gones == 1);
	cr_expect_neq(guests[0].code, 0);
	ops->link_break(guests[0].link);
	guest_reap(&guests[0]);
	cr_expect_eq(guests[0].tally, posted + 1);
	guest_leave(&guests[0]);
	host_open(8);
	guest_enter(&guests[1]);
	expect_reads(&guests[1]);
}
