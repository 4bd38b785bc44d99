/* SPDX-License-Identifier: Apache-2.0 */
/* The users and groups that may connect. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <linux/posix_acl.h>
#include <linux/posix_acl_xattr.h>

#include "tests/unit/bus/shm_scene.h"

TestSuite(shm, .init = enter, .fini = leave, .timeout = 60);

#define KERNEL_REFUSES (100 + EACCES) /* before the publisher sees the connection */

static bool without_lists; /* as on a file system that has no access control lists */

int __real_setxattr(const char *path, const char *name, const void *value, size_t bytes, int flags);
int __wrap_setxattr(const char *path, const char *name, const void *value, size_t bytes, int flags);

int __wrap_setxattr(const char *path, const char *name, const void *value, size_t bytes, int flags)
{
	if (without_lists) {
		errno = EOPNOTSUPP;
		return -1;
	}
	return __real_setxattr(path, name, value, bytes, flags);
}

/* New files of the folder let this user read and write. */
static int folder_gives(uid_t user)
{
	const struct {
		struct posix_acl_xattr_header header;
		struct posix_acl_xattr_entry entries[5];
	} list = { { POSIX_ACL_XATTR_VERSION },
		   { { ACL_USER_OBJ, 7, (uint32_t)ACL_UNDEFINED_ID },
		     { ACL_USER, 7, user },
		     { ACL_GROUP_OBJ, 5, (uint32_t)ACL_UNDEFINED_ID },
		     { ACL_MASK, 7, (uint32_t)ACL_UNDEFINED_ID },
		     { ACL_OTHER, 5, (uint32_t)ACL_UNDEFINED_ID } } };

	return __real_setxattr(folder, "system.posix_acl_default", &list, sizeof(list), 0);
}

static void need_others_and_lists(void)
{
	if (!may_be_others())
		cr_skip("only root can try to connect as others");
	if (folder_gives(SOMEONE) < 0)
		cr_skip("the file system of /tmp has no access control lists: %s", strerror(errno));
}

Test(shm, without_access_other_users_are_refused)
{
	if (!may_be_others())
		cr_skip("only root can try to connect as others");
	host_open(8, nobody_else);
	cr_expect_eq(as_someone(65533, 65533, 0), KERNEL_REFUSES);
	cr_expect_eq(as_someone(0, 0, 0), 0);
	cr_expect_eq(host.hellos, 1);
}

Test(shm, only_named_users_and_groups_connect)
{
	const uid_t users[] = { 65531, 65533 };
	const gid_t groups[] = { 65529, 65530 };
	const struct fabric_access access = { users, 2, groups, 2 };
	const struct fabric_access users_only = { users, 2, NULL, 0 };

	need_others_and_lists();
	host_open(8, access);
	cr_expect_eq(as_someone(65533, 65534, 0), 0);
	cr_expect_eq(as_someone(65531, 65534, 65528), 0);
	cr_expect_eq(as_someone(65534, 65530, 0), 0);
	cr_expect_eq(as_someone(65534, 65534, 65529), 0, "a group beside the first");
	cr_expect_eq(as_someone(65534, 65534, 0), KERNEL_REFUSES);
	cr_expect_eq(as_someone(65534, 65528, 65527), KERNEL_REFUSES);
	cr_expect_eq(host.hellos, 4);
	cr_expect_eq(host.logged, 0, "%s", host.log);
	host_close();
	host_open(8, users_only);
	cr_expect_eq(as_someone(65533, 65534, 0), 0);
	cr_expect_eq(as_someone(65534, 65530, 0), KERNEL_REFUSES);
}

/* The folder's own list would give the user more than the options do. */
Test(shm, folder_gives_no_user_access)
{
	const uid_t users[] = { 65533 };
	const struct fabric_access access = { users, 1, NULL, 0 };

	need_others_and_lists();
	host_open(8, nobody_else);
	cr_expect_eq(as_someone(SOMEONE, SOMEONE, 0), KERNEL_REFUSES);
	host_close();
	host_open(8, access);
	cr_expect_eq(as_someone(SOMEONE, SOMEONE, 0), KERNEL_REFUSES);
	cr_expect_eq(as_someone(65533, 65533, 0), 0);
}

static mode_t socket_mode(void)
{
	struct stat status;

	cr_assert_eq(stat(socket_address().sun_path, &status), 0);
	return status.st_mode & 07777;
}

/* The socket's own group stands in for a list. */
Test(shm, without_lists_a_single_group_connects)
{
	const gid_t groups[] = { 65529 };
	const struct fabric_access access = { NULL, 0, groups, 1 };

	if (!may_be_others())
		cr_skip("only root can try to connect as others");
	without_lists = true;
	host_open(8, access);
	cr_expect_eq(host.logged, 0, "%s", host.log);
	cr_expect_eq(socket_mode(), 0660);
	cr_expect_eq(as_someone(65534, 65529, 0), 0);
	cr_expect_eq(as_someone(65534, 65534, 65529), 0);
	cr_expect_eq(as_someone(65534, 65534, 65528), KERNEL_REFUSES);
}

/* The check of each connection is left. */
Test(shm, without_lists_others_are_refused_afterwards)
{
	const uid_t users[] = { 65531, 65533 };
	const gid_t groups[] = { 65529, 65530 };
	const struct fabric_access access = { users, 2, groups, 2 };
	char words[400];

	if (!may_be_others())
		cr_skip("only root can try to connect as others");
	without_lists = true;
	host_open(8, access);
	cr_expect_eq(host.logged, 1);
	snprintf(words, sizeof(words),
		 "address shm:test: every local user may connect to %s, and is refused afterwards: "
		 "its permissions cannot name the users and groups (Operation not supported)",
		 socket_address().sun_path);
	cr_expect_str_eq(host.log, words);
	cr_expect_eq(as_someone(65533, 65534, 0), 0);
	cr_expect_eq(as_someone(65534, 65530, 0), 0);
	cr_expect_eq(as_someone(65534, 65534, 65529), 0, "a group beside the first");
	cr_expect_eq(as_someone(65534, 65534, 0), EACCES);
	cr_expect_eq(as_someone(65534, 65528, 65527), EACCES);
	cr_expect_eq(host.hellos, 3);
	cr_expect_eq(host.logged, 3);
	cr_expect(strstr(host.log, "of user 65534 was refused: user 65534 has no permission"), "%s",
		  host.log);
	cr_expect_eq(host.kind, FABRIC_LOG_REFUSED);
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
	without_lists = true;
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
	UNTIL(host.logged == 1 + 50);
	cr_expect(strstr(host.log, "has no permission"), "%s", host.log);
	guest_enter();
	expect_guest_well();
	close(pipes[1]);
	cr_assert_eq(waitpid(child, &status, 0), child);
	cr_assert_eq(status, 0);
}
