/* SPDX-License-Identifier: Apache-2.0 */
/* The lock and the socket of a publisher are removed while it lives, as cleaners of old files do.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bus/shm/shm_location.h"
#include "bus/shm/shm_lock.h"
#include "tests/support/old_kernel.h"
#include "tests/unit/bus/shm_scene.h"
#include "tickbus/error.h"

TestSuite(site, .init = enter, .fini = leave, .timeout = 60);

static char lock[128];

static bool is_there(const char *path)
{
	struct stat status;

	return lstat(path, &status) == 0;
}

static void remove_both(void)
{
	snprintf(lock, sizeof(lock), "%s/test.lock", folder);
	cr_assert_eq(unlink(socket_address().sun_path), 0);
	cr_assert_eq(unlink(lock), 0);
}

static void expect_there_again(void)
{
	char words[512];

	UNTIL(host.logged == 1);
	snprintf(words, sizeof(words),
		 "address shm:test: files of %s were removed, and are there again",
		 socket_address().sun_path);
	cr_expect_str_eq(host.log, words);
	expect_guest_well();
	guest_leave();
	guest_enter();
	expect_guest_well();
}

/* A second publisher of the name. Returns its error; *words: what it says. */
static int second_listens(char words[512])
{
	const struct fabric_listen how = { .address = "test", .peers_max = 4 };
	struct listener *second;
	const int result = shm_listen(&second, &how, &host_calls, NULL);

	snprintf(words, 512, "%s", tb_error());
	shm_listener_close(second);
	return result;
}

static void expect_no_second(void)
{
	char words[512], expected[512];

	cr_expect_eq(second_listens(words), -EADDRINUSE);
	snprintf(expected, sizeof(expected),
		 "address shm:test: another publisher (pid %d) listens there (%s)", (int)getpid(),
		 socket_address().sun_path);
	cr_expect_str_eq(words, expected);
}

Test(site, removed_socket_is_made_again)
{
	host_open(8, nobody_else);
	guest_enter();
	cr_assert_eq(unlink(socket_address().sun_path), 0);
	expect_there_again();
	expect_no_second();
}

Test(site, removed_lock_and_socket_are_made_again)
{
	host_open(8, nobody_else);
	guest_enter();
	remove_both();
	expect_there_again();
	expect_no_second();
	host_close();
	cr_expect_not(is_there(lock), "the lock stays");
	cr_expect_not(is_there(socket_address().sun_path), "the socket stays");
}

Test(site, removed_lock_is_made_again)
{
	host_open(8, nobody_else);
	guest_enter();
	snprintf(lock, sizeof(lock), "%s/test.lock", folder);
	cr_assert_eq(unlink(lock), 0);
	expect_there_again();
	expect_no_second();
}

/* A porter shares the listening socket, and goes on with the next. */
Test(site, removed_files_are_made_again_on_an_old_kernel)
{
	old_kernel = true;
	host_open(8, nobody_else);
	guest_enter();
	remove_both();
	expect_there_again();
	guest_leave();
	porter_signal(SIGKILL); /* the publisher's */
	UNTIL(host.logged == 2);
	cr_expect(strstr(host.log, "ended, and was started again"), "%s", host.log);
	guest_enter();
	expect_guest_well();
}

/* To start a porter takes milliseconds. In them a client would find the file, and could not
 * connect.
 */
Test(site, socket_has_no_file_before_it_is_shared)
{
	old_kernel = true;
	host_open(8, nobody_else);
	cr_expect(is_there(socket_address().sun_path));
	cr_expect_eq(old_kernel_addresses, 0, "a socket with a file was to be shared");
}

/* The folder of the test is given, so it is not made again. */
Test(site, removed_folder_is_waited_for)
{
	char words[512];

	host_open(8, nobody_else);
	guest_enter();
	remove_both();
	cr_assert_eq(rmdir(folder), 0);
	UNTIL(host.logged == 1);
	snprintf(words, sizeof(words),
		 "address shm:test: TICKBUS_RUNTIME_DIR: found %s, expected a folder: files of %s "
		 "were removed; will retry",
		 folder, socket_address().sun_path);
	cr_expect_str_eq(host.log, words);
	expect_guest_well();
	cr_assert_eq(mkdir(folder, 0700), 0);
	UNTIL(host.logged == 2);
	cr_expect(strstr(host.log, "are there again"), "%s", host.log);
	guest_leave();
	guest_enter();
	expect_guest_well();
}

/* Another publisher took the address before this publisher looked. */
Test(site, address_that_another_publisher_took_is_lost)
{
	const struct fabric_listen how = { .address = "test", .peers_max = 4 };
	struct listener *second;
	char words[512];

	host_open(8, nobody_else);
	guest_enter();
	remove_both();
	cr_assert_eq(shm_listen(&second, &how, &host_calls, NULL), 0, "%s", tb_error());
	UNTIL(host.logged == 1);
	cr_expect_eq(host.kind, FABRIC_LOG_LOST);
	snprintf(words, sizeof(words),
		 "address shm:test: another publisher (pid %d) listens there (%s): files of this "
		 "publisher were removed, and subscribers cannot connect to it any more",
		 (int)getpid(), socket_address().sun_path);
	cr_expect_str_eq(host.log, words);
	expect_guest_well(); /* those that are connected stay */
	host_close();
	cr_expect(is_there(lock) && is_there(socket_address().sun_path),
		  "it removed the files of the other");
	shm_listener_close(second);
}

/* A process that knows no lock. */
Test(site, address_that_a_stranger_took_is_lost)
{
	char words[512];
	int listening;

	host_open(8, nobody_else);
	guest_enter();
	cr_assert_eq(unlink(socket_address().sun_path), 0);
	listening = liar_listen();
	UNTIL(host.logged == 1);
	cr_expect_eq(host.kind, FABRIC_LOG_LOST);
	snprintf(words, sizeof(words), "address shm:test: another process (pid %d) listens there",
		 (int)getpid());
	cr_expect(strstr(host.log, words), "%s", host.log);
	close(listening);
	host_close();
	cr_expect(is_there(socket_address().sun_path), "it removed the stranger's socket");
}

/* The other holds the lock for the moment that it needs to find the socket. */
Test(site, publisher_that_fails_to_start_takes_no_address)
{
	char words[512];

	host_open(8, nobody_else);
	guest_enter();
	snprintf(lock, sizeof(lock), "%s/test.lock", folder);
	cr_assert_eq(unlink(lock), 0);
	cr_expect_eq(second_listens(words), -EADDRINUSE);
	cr_expect(strstr(words, "another process"), "%s", words);
	UNTIL(host.logged == 1);
	cr_expect_eq(host.kind, FABRIC_LOG_INFO, "%s", host.log);
	expect_there_again();
}

/* Holds the lock as another publisher does before it looks for the socket. */
Test(site, lock_of_another_publisher_without_a_socket_is_waited_for)
{
	struct shm_lock other = { .fd = -1 };
	struct shm_location place;

	host_open(8, nobody_else);
	guest_enter();
	remove_both();
	cr_assert_eq(shm_location_listen("test", &place), 0);
	cr_assert_eq(shm_lock_take(&other, "test", &place), 0);
	UNTIL(host.logged == 1);
	cr_expect_eq(host.kind, FABRIC_LOG_INFO);
	cr_expect(strstr(host.log, "will retry"), "%s", host.log);
	shm_lock_close(&other);
	UNTIL(host.logged == 2);
	cr_expect(strstr(host.log, "are there again"), "%s", host.log);
	expect_guest_well();
}
