/* SPDX-License-Identifier: Apache-2.0 */
/* The users and groups that may connect. */
#include <criterion/criterion.h>
#include <errno.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "tests/unit/bus/shm_scene.h"

TestSuite(shm, .init = enter, .fini = leave, .timeout = 60);

Test(shm, without_access_other_users_are_refused)
{
	if (!may_be_others())
		cr_skip("only root can try to connect as others");
	host_open(8, nobody_else);
	cr_expect_eq(as_someone(65533, 65533, 0), 100 + EACCES, "the socket's own mode refuses");
	cr_expect_eq(as_someone(0, 0, 0), 0);
	cr_expect_eq(host.hellos, 1);
}

Test(shm, only_named_users_and_groups_connect)
{
	const uid_t users[] = { 65531, 65533 };
	const gid_t groups[] = { 65529, 65530 };
	const struct fabric_access access = { users, 2, groups, 2 };
	const struct fabric_access users_only = { users, 2, NULL, 0 };

	if (!may_be_others())
		cr_skip("only root can try to connect as others");
	host_open(8, access);
	cr_expect_eq(as_someone(65533, 65534, 0), 0);
	cr_expect_eq(as_someone(65531, 65534, 65528), 0);
	cr_expect_eq(as_someone(65534, 65530, 0), 0);
	cr_expect_eq(as_someone(65534, 65534, 65529), 0, "a group beside the first");
	cr_expect_eq(as_someone(65534, 65534, 0), EACCES);
	cr_expect_eq(as_someone(65534, 65528, 65527), EACCES);
	cr_expect_eq(host.hellos, 4);
	cr_expect_eq(host.logged, 2);
	cr_expect(strstr(host.log, "of user 65534 was refused: user 65534 has no permission"), "%s",
		  host.log);
	cr_expect_eq(host.kind, FABRIC_LOG_REFUSED);
	host_close();
	host_open(8, users_only);
	cr_expect_eq(as_someone(65533, 65534, 0), 0);
	cr_expect_eq(as_someone(65534, 65530, 0), EACCES);
}

Test(shm, closed_folder_is_logged_if_others_are_named)
{
	const uid_t users[] = { 65533 };
	const struct fabric_access access = { users, 1, NULL, 0 };

	cr_assert_eq(chmod(folder, 0700), 0);
	host_open(8, access);
	cr_expect_eq(host.logged, 1);
	cr_expect_eq(host.kind, FABRIC_LOG_INFO);
	cr_expect(strstr(host.log, "but cannot enter /"), "%s", host.log);
	host_close();
	host_open(8, nobody_else);
	cr_expect_eq(host.logged, 0, "%s", host.log);
	host_close();
	cr_assert_eq(chmod(folder, 0711), 0);
	host_open(8, access);
	cr_expect_eq(host.logged, 0, "%s", host.log);
}

/* The refused users send no hello: as peers they would keep their places for some time. */
Test(shm, refused_users_do_not_count_as_peers)
{
	const uid_t users[] = { 65533 };
	const struct fabric_access access = { users, 1, NULL, 0 };
	int pipes[2], status;
	pid_t child;
	char go;

	if (!may_be_others())
		cr_skip("only root can try to connect as others");
	host_open(4, access);
	cr_assert_eq(pipe(pipes), 0);
	child = fork();
	if (child == 0) {
		close(pipes[1]);
		if (setresuid(65534, 65534, 65534) < 0)
			_exit(1);
		for (int i = 0; i < 50; i++)
			stranger();
		_exit(read(pipes[0], &go, 1) == 0 ? 0 : 1);
	}
	close(pipes[0]);
	UNTIL(host.logged == 50);
	cr_expect(strstr(host.log, "has no permission"), "%s", host.log);
	guest_enter();
	expect_guest_well();
	close(pipes[1]);
	cr_assert_eq(waitpid(child, &status, 0), child);
	cr_assert_eq(status, 0);
}
