/* SPDX-License-Identifier: Apache-2.0 */
/* Which socket a subscriber takes: folders, the user that listens, and what is said if there is no
 * bus. */
#include <criterion/criterion.h>
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bus/shm/shm_porter.h"
#include "bus/shm/shm_search.h"
#include "tests/unit/bus/shm_scene.h"
#include "tickbus/error.h"

TestSuite(shm, .init = enter, .fini = leave, .timeout = 60);

static void expect_no_bus(const char *address, int code, const char *words)
{
	cr_expect_eq(shm_connect(&guest.link, address, "hello", 5, &guest_calls, NULL), -code, "%s",
		     address);
	cr_expect_str_eq(tb_error(), words);
	cr_expect_null(guest.link);
}

/* Connects with this address, and expects a working connection. */
static void expect_bus(const char *address, uid_t user)
{
	uid_t found = user + 1;

	cr_assert_eq(shm_connect(&guest.link, address, "hello", 5, &guest_calls, NULL), 0, "%s",
		     tb_error());
	UNTIL(guest.welcomes || guest.gones);
	cr_assert_eq(guest.gones, 0, "%s", guest.why);
	cr_expect_eq(shm_link_user(guest.link, &found), 0);
	cr_expect_eq(found, user);
	expect_guest_well();
	guest_leave();
}

Test(shm, file_as_runtime_folder_is_named)
{
	setenv("TICKBUS_RUNTIME_DIR", "/etc/passwd", 1);
	expect_no_bus(
		"test", ENOTDIR,
		"address shm:test: TICKBUS_RUNTIME_DIR: found /etc/passwd, expected a folder");
	setenv("TICKBUS_RUNTIME_DIR", "/nonexistent/folder", 1);
	expect_no_bus("test", ECONNREFUSED,
		      "address shm:test: no publisher listens there (/nonexistent/folder: the "
		      "folder does not exist)");
}

Test(shm, directory_in_place_of_the_socket_is_named)
{
	char words[256];

	cr_assert_eq(mkdir(socket_address().sun_path, 0700), 0);
	snprintf(words, sizeof(words),
		 "address shm:test: no publisher listens there (%s: test.sock is no socket)",
		 folder);
	expect_no_bus("test", ECONNREFUSED, words);
	cr_assert_eq(rmdir(socket_address().sun_path), 0);
}

Test(shm, stream_socket_is_no_bus)
{
	const struct sockaddr_un at = socket_address();
	const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	char words[256];

	cr_assert_eq(bind(fd, (const struct sockaddr *)&at, sizeof(at)), 0);
	cr_assert_eq(listen(fd, 1), 0);
	snprintf(words, sizeof(words),
		 "address shm:test: no publisher listens there (%s: test.sock belongs to another "
		 "program)",
		 folder);
	expect_no_bus("test", ECONNREFUSED, words);
	close(fd);
}

Test(shm, invalid_user_is_refused)
{
	static const struct {
		const char *address, *words;
	} wrong[] = {
		{ "test,", "address shm:test,: found \"\", expected user=" },
		{ "test,users=1", "address shm:test,users=1: found \"users=1\", expected user=" },
		{ "test,user=", "address shm:test,user=: user: found \"\", expected a user id from "
				"0 to 4294967294" },
		{ "test,user=-1", "address shm:test,user=-1: user: found \"-1\", expected a user "
				  "id from 0 to 4294967294" },
		{ "test,user=1,user=2",
		  "address shm:test,user=1,user=2: user: found \"1,user=2\", expected a user id "
		  "from 0 to 4294967294" },
		{ "test,user=4294967295",
		  "address shm:test,user=4294967295: user: found \"4294967295\", expected a user "
		  "id from 0 to 4294967294" },
		{ "test,user=18446744073709551616",
		  "address shm:test,user=18446744073709551616: user: found "
		  "\"18446744073709551616\", expected a user id from 0 to 4294967294" },
	};

	host_open(1, nobody_else);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		expect_no_bus(wrong[i].address, EINVAL, wrong[i].words);
}

Test(shm, address_requires_a_user_that_listens)
{
	const unsigned int before = descriptors();
	char address[64], words[256];

	host_open(4, nobody_else);
	snprintf(address, sizeof(address), "test,user=%u", (unsigned int)geteuid());
	expect_bus(address, geteuid());
	snprintf(words, sizeof(words),
		 "address shm:test: no bus there for user %u (%s: user %u listens at test.sock, "
		 "expected user %u)",
		 (unsigned int)geteuid(), folder, (unsigned int)geteuid(), SOMEONE);
	snprintf(address, sizeof(address), "test,user=%u", SOMEONE);
	expect_no_bus(address, EACCES, words);
	host_close();
	UNTIL(shm_porter_reap() == 0);
	cr_expect_eq(descriptors(), before);
}

Test(shm, folder_that_others_may_write_to_is_refused)
{
	static const mode_t modes[] = { 0777, 01777, 0770, 0702 };
	char address[64], words[320];

	snprintf(address, sizeof(address), "test,user=%u", (unsigned int)geteuid());
	for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
		cr_assert_eq(chmod(folder, modes[i]), 0);
		host_open(4, nobody_else);
		cr_expect(strstr(host.log, "so subscribers refuse it unless their address has "
					   "user="),
			  "%s", host.log);
		snprintf(words, sizeof(words),
			 "address shm:test: no bus there for user %u (%s: found mode %04o, "
			 "expected a folder that only its owner may write to, or user= in the "
			 "address)",
			 (unsigned int)geteuid(), folder, modes[i]);
		expect_no_bus("test", EACCES, words);
		expect_bus(address, geteuid());
		host_close();
	}
	cr_assert_eq(chmod(folder, 0755), 0);
	host_open(4, nobody_else);
	cr_expect_eq(host.logged, 0, "%s", host.log);
	expect_bus("test", geteuid());
}

/* The listener has the user that its process had in listen(). */
static int listen_as(uid_t user)
{
	int fd;

	cr_assert_eq(seteuid(user), 0);
	fd = liar_listen();
	cr_assert_eq(seteuid(0), 0);
	return fd;
}

/* In a user namespace that maps no user: 0, or the error of connecting. */
static int connect_unmapped(const char *address, const char *words)
{
	const pid_t child = fork();
	int status;

	if (child == 0) {
		if (setresuid(SOMEONE, SOMEONE, SOMEONE) < 0 || unshare(CLONE_NEWUSER) < 0)
			_exit(200);
		status = -shm_connect(&guest.link, address, "hello", 5, &guest_calls, NULL);
		_exit(status == 0 || strstr(tb_error(), words) ? status : 201);
	}
	cr_assert_eq(waitpid(child, &status, 0), child);
	cr_assert(WIFEXITED(status), "status %x", status);
	return WEXITSTATUS(status);
}

/* All users that are not mapped have the same id there, also the folder's owner. */
Test(shm, folder_of_an_unmapped_user_is_refused)
{
	int fd, found;

	if (!may_be_others())
		cr_skip("only root can give a folder away");
	cr_assert_eq(chown(folder, SOMEONE + 1, SOMEONE + 1), 0);
	fd = listen_as(SOMEONE + 1);
	cr_assert_eq(chmod(socket_address().sun_path, 0666), 0);
	found = connect_unmapped("test", "which this user namespace does not know");
	if (found == 200)
		cr_skip("this user cannot make a user namespace");
	cr_expect_eq(found, EACCES);
	cr_expect_eq(connect_unmapped("test,user=65534", ""), 0);
	cr_expect_eq(connect_unmapped("test,user=0", "expected user 0"), EACCES);
	close(fd);
	cr_assert_eq(chown(folder, 0, 0), 0);
}

Test(shm, folder_of_a_stranger_is_refused)
{
	char words[320];
	int fd;

	if (!may_be_others())
		cr_skip("only root can give a folder away");
	cr_assert_eq(chown(folder, SOMEONE, SOMEONE), 0);
	host_open(1, nobody_else);
	snprintf(words, sizeof(words),
		 "address shm:test: no bus there for user 0 (%s: user %u owns the folder and user "
		 "0 listens at test.sock, expected the same user, or user= in the address)",
		 folder, SOMEONE);
	expect_no_bus("test", EACCES, words);
	expect_bus("test,user=0", 0);
	host_close();
	fd = listen_as(SOMEONE);
	cr_expect_eq(shm_connect(&guest.link, "test", "hello", 5, &guest_calls, NULL), 0, "%s",
		     tb_error());
	close(fd);
}

/* -- several folders ----------------------------------------------------------------------------
 */

/* Gives this process a /run/tickbus of its own. */
static bool system_folder_own(void)
{
	return geteuid() == 0 && unshare(CLONE_NEWNS) == 0 &&
	       mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
	       mount("none", "/run", "tmpfs", 0, "mode=755") == 0 &&
	       mkdir("/run/tickbus", 0755) == 0;
}

/* Root's socket in the system's folder; the descriptor that listens. */
static int system_socket(mode_t mode)
{
	const struct sockaddr_un at = { AF_UNIX, "/run/tickbus/test.sock" };
	const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	unlink(at.sun_path);
	cr_assert_eq(bind(fd, (const struct sockaddr *)&at, sizeof(at)), 0, "%s", strerror(errno));
	cr_assert_eq(chmod(at.sun_path, mode), 0);
	cr_assert_eq(listen(fd, 8), 0);
	return fd;
}

static bool several_folders(void)
{
	if (!system_folder_own())
		return false;
	cr_assert_eq(chown(folder, SOMEONE, SOMEONE), 0);
	unsetenv("TICKBUS_RUNTIME_DIR");
	setenv("XDG_RUNTIME_DIR", folder, 1);
	return true;
}

static void several_folders_remove(void)
{
	char own[128];

	host_close();
	snprintf(own, sizeof(own), "%s/tickbus", folder);
	rmdir(own);
}

static const char *what_system_has(const char *what, char words[600])
{
	snprintf(words, 600,
		 "address shm:test: subscribers find this name in another folder first, and go on "
		 "to %s/tickbus/test.sock (/run/tickbus: %s)",
		 folder, what);
	return words;
}

Test(shm, next_folder_is_searched_after_a_socket_without_use)
{
	char what[200], words[600];
	int fd;

	if (!several_folders())
		cr_skip("only root can have a /run/tickbus of its own");
	fd = system_socket(0600);
	for (int i = 0; i < 2; i++) {
		if (i == 0)
			snprintf(what, sizeof(what),
				 "user %u has no permission to connect to test.sock of user 0",
				 SOMEONE);
		else
			snprintf(what, sizeof(what), "no process listens at test.sock");
		cr_assert_eq(setresuid(SOMEONE, SOMEONE, 0), 0);
		host_open(4, nobody_else);
		cr_expect_eq(host.logged, 1);
		cr_expect_str_eq(host.log, what_system_has(what, words));
		expect_bus("test", SOMEONE);
		several_folders_remove();
		snprintf(words, sizeof(words),
			 "address shm:test: %s (/run/tickbus: %s; %s/tickbus: the folder does not "
			 "exist; "
			 "/tmp/tickbus-%u: the folder does not exist)",
			 i ? "no publisher listens there" : "no bus there for user 65421", what,
			 folder, SOMEONE);
		expect_no_bus("test", i ? ECONNREFUSED : EACCES, words);
		cr_assert_eq(setresuid(0, 0, 0), 0);
		if (i == 0) {
			close(fd);
			fd = system_socket(0666);
		}
		close(fd);
	}
}

Test(shm, publisher_behind_a_live_bus_is_refused)
{
	const struct fabric_listen how = { .address = "test", .peers_max = 1 };
	struct listener *listener = NULL;
	char words[600];
	int fd;

	if (!several_folders())
		cr_skip("only root can have a /run/tickbus of its own");
	fd = system_socket(0666);
	cr_assert_eq(setresuid(SOMEONE, SOMEONE, 0), 0);
	cr_expect_eq(shm_listen(&listener, &how, &host_calls, NULL), -EADDRINUSE);
	snprintf(words, sizeof(words),
		 "address shm:test: subscribers of user %u look into /run/tickbus before "
		 "%s/tickbus/test.sock: found a bus of user 0, expected no bus there; choose "
		 "another name",
		 SOMEONE, folder);
	cr_expect_str_eq(tb_error(), words);
	snprintf(words, sizeof(words), "test,user=%u", SOMEONE);
	cr_expect_eq(shm_connect(&guest.link, words, "hello", 5, &guest_calls, NULL), -EACCES);
	cr_expect(strstr(tb_error(), "(/run/tickbus: user 0 listens at test.sock, expected user "),
		  "%s", tb_error());
	cr_assert_eq(setresuid(0, 0, 0), 0);
	several_folders_remove();
	close(fd);
}
