/* SPDX-License-Identifier: Apache-2.0 */
/* Taking an address: names, folders, locks, sockets that were left. */
#include <criterion/criterion.h>
#include <errno.h>
#include <grp.h>
#include <pthread.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "bus/shm/shm_search.h"
#include "tests/support/random.h"
#include "tickbus/error.h"
#include "tests/unit/bus/shm_scene.h"

TestSuite(shm, .init = enter, .fini = leave, .timeout = 60);

static void expect_no_listening(const char *name, int code, const char *words)
{
	const struct fabric_listen how = { .address = name, .peers_max = 1 };
	struct listener *listener = (struct listener *)&host;

	cr_expect_eq(shm_listen(&listener, &how, &host_calls, NULL), -code, "%s", name);
	cr_expect_str_eq(tb_error(), words);
	cr_expect_null(listener);
}

Test(shm, invalid_name_is_refused)
{
	static const char *const names[] = { "", ".", "..", ".x", "a/b", "../x", "a b", "a\n" };
	const unsigned int before = descriptors();
	char words[256], name[80];

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		snprintf(words, sizeof(words),
			 "address shm:%s: expected shm:NAME with a name of 1 to 63 letters, "
			 "digits, '.', '_' and '-' that does not begin with '.'",
			 names[i]);
		expect_no_listening(names[i], EINVAL, words);
		cr_expect_eq(shm_connect(&guest.link, names[i], "hello", 5, &guest_calls, NULL),
			     -EINVAL);
		cr_expect_str_eq(tb_error(), words);
	}
	memset(name, 'n', sizeof(name));
	name[64] = '\0';
	cr_expect_eq(shm_connect(&guest.link, name, "hello", 5, &guest_calls, NULL), -EINVAL);
	cr_expect_eq(descriptors(), before);
}

Test(shm, unusable_folder_is_named)
{
	char words[512], path[256];

	setenv("TICKBUS_RUNTIME_DIR", "/nonexistent/folder", 1);
	expect_no_listening("test", ENOENT,
			    "address shm:test: TICKBUS_RUNTIME_DIR: found /nonexistent/folder, "
			    "expected a folder");
	setenv("TICKBUS_RUNTIME_DIR", "/etc/passwd", 1);
	expect_no_listening("test", EACCES,
			    "address shm:test: TICKBUS_RUNTIME_DIR: found /etc/passwd, "
			    "expected a folder");
	for (int length = 80; length <= 160; length += 80) {
		snprintf(path, sizeof(path), "%s/%0*d", folder, length, 0);
		cr_assert_eq(mkdir(path, 0700), 0);
		setenv("TICKBUS_RUNTIME_DIR", path, 1);
		snprintf(words, sizeof(words),
			 "address shm:test: the socket's path %s/test.sock is longer than 107 "
			 "bytes; set TICKBUS_RUNTIME_DIR to a shorter folder",
			 path);
		expect_no_listening("test", ENAMETOOLONG, words);
		rmdir(path);
	}
}

Test(shm, killed_publisher_is_replaced)
{
	const struct sockaddr_un at = socket_address();
	char lock[128], words[256];
	int left = liar_listen();

	close(left); /* its socket stays and answers no client */
	snprintf(lock, sizeof(lock), "%s/test.lock", folder);
	close(open(lock, O_RDWR | O_CREAT, 0600));
	cr_expect_eq(shm_connect(&guest.link, "test", "hello", 5, &guest_calls, NULL),
		     -ECONNREFUSED);
	snprintf(words, sizeof(words),
		 "address shm:test: no publisher listens there (%s: no process listens at "
		 "test.sock)",
		 folder);
	cr_expect_str_eq(tb_error(), words);
	host_open(4, nobody_else);
	guest_enter();
	expect_guest_well();
	guest_leave();
	host_close();
	cr_expect_eq(access(at.sun_path, F_OK), -1);
	cr_expect_eq(access(lock, F_OK), -1);
	cr_expect_eq(shm_connect(&guest.link, "test", "hello", 5, &guest_calls, NULL),
		     -ECONNREFUSED);
	snprintf(words, sizeof(words),
		 "address shm:test: no publisher listens there (%s: no test.sock)", folder);
	cr_expect_str_eq(tb_error(), words);
}

Test(shm, lost_lock_leaves_the_next_publishers_files)
{
	const struct fabric_listen how = { .address = "test", .peers_max = 4 };
	const struct sockaddr_un at = socket_address();
	struct listener *first;
	char lock[128];

	snprintf(lock, sizeof(lock), "%s/test.lock", folder);
	cr_assert_eq(shm_listen(&first, &how, &host_calls, NULL), 0, "%s", tb_error());
	unlink(at.sun_path);
	unlink(lock);
	host_open(4, nobody_else);
	shm_listener_close(first);
	cr_expect_eq(access(at.sun_path, F_OK), 0);
	cr_expect_eq(access(lock, F_OK), 0);
	guest_enter();
	expect_guest_well();
	guest_leave();
	host_close();
	cr_expect_eq(access(at.sun_path, F_OK), -1);
	cr_expect_eq(access(lock, F_OK), -1);
}

Test(shm, address_in_use_names_its_process)
{
	char words[256];

	host_open(4, nobody_else);
	guest_enter();
	snprintf(words, sizeof(words),
		 "address shm:test: another publisher (pid %d) listens there (%s/test.sock)",
		 (int)getpid(), folder);
	expect_no_listening("test", EADDRINUSE, words);
	expect_guest_well();
	guest_leave();
	guest_enter();
}

static ino_t inode(const char *path)
{
	struct stat status;

	cr_assert_eq(lstat(path, &status), 0);
	return status.st_ino;
}

Test(shm, listening_publisher_without_lock_is_kept)
{
	const struct sockaddr_un at = socket_address();
	char lock[128], words[256];
	ino_t socket;

	host_open(4, nobody_else);
	socket = inode(at.sun_path);
	snprintf(lock, sizeof(lock), "%s/test.lock", folder);
	snprintf(words, sizeof(words),
		 "address shm:test: another process (pid %d) listens there (%s)", (int)getpid(),
		 at.sun_path);
	cr_assert_eq(unlink(lock), 0);
	expect_no_listening("test", EADDRINUSE, words);
	expect_no_listening("test", EADDRINUSE, words);
	cr_expect_eq(inode(at.sun_path), socket);
	guest_enter();
	expect_guest_well();
	cr_expect_eq(host.logged, 0, "%s", host.log);
	guest_leave();
}

/* Of any kind, and where no further connection fits in. */
Test(shm, listening_stranger_is_not_replaced)
{
	const struct sockaddr_un at = socket_address();
	static const int types[] = { SOCK_SEQPACKET, SOCK_STREAM, SOCK_SEQPACKET };
	char words[256], pid[32];

	for (int i = 0; i < 3; i++) {
		const int fd = socket(AF_UNIX, types[i] | SOCK_CLOEXEC, 0);
		int fill = -1;

		snprintf(pid, sizeof(pid), " (pid %d)", (int)getpid());
		snprintf(words, sizeof(words),
			 "address shm:test: another process%s listens there (%s)", i ? "" : pid,
			 at.sun_path);
		cr_assert_eq(bind(fd, (const struct sockaddr *)&at, sizeof(at)), 0);
		cr_assert_eq(listen(fd, 0), 0);
		if (i == 2) {
			fill = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
			cr_assert_eq(connect(fill, (const struct sockaddr *)&at, sizeof(at)), 0);
		}
		expect_no_listening("test", EADDRINUSE, words);
		cr_expect_eq(access(at.sun_path, F_OK), 0);
		close(fill);
		close(fd);
		host_open(1, nobody_else); /* no process listens any more */
		host_close();
	}
}

/* Tries to listen as the user SOMEONE, with permission to write to the folder. Returns 0, or the
 * error, which must have this text. */
static int listened_as_someone(const char *words)
{
	const struct fabric_listen how = { .address = "test", .peers_max = 1 };
	struct listener *listener;
	int status, result;
	const pid_t child = fork();

	if (child == 0) {
		if (setgroups(0, NULL) < 0 || setresgid(SOMEONE, SOMEONE, SOMEONE) < 0 ||
		    setresuid(SOMEONE, SOMEONE, SOMEONE) < 0)
			_exit(200);
		result = shm_listen(&listener, &how, &host_calls, NULL);
		if (result < 0)
			_exit(strcmp(tb_error(), words) == 0 ? -result : 201);
		shm_listener_close(listener);
		_exit(0);
	}
	cr_assert_eq(waitpid(child, &status, 0), child);
	cr_assert(WIFEXITED(status), "status %x", status);
	cr_assert_neq(WEXITSTATUS(status), 200, "cannot become another user");
	cr_assert_neq(WEXITSTATUS(status), 201, "other words");
	return WEXITSTATUS(status);
}

/* A user without permission to connect cannot find out whether a process listens. */
Test(shm, socket_without_permission_is_not_replaced)
{
	const struct sockaddr_un at = socket_address();
	char lock[128], words[300];
	ino_t socket;

	if (!may_be_others() || chmod(folder, 0777) < 0)
		cr_skip("only root can try to listen as others");
	snprintf(lock, sizeof(lock), "%s/test.lock", folder);
	snprintf(words, sizeof(words),
		 "address shm:test: %s is a socket of user 0 that user %u has no permission to "
		 "connect to; if no process listens there, remove it",
		 at.sun_path, SOMEONE);
	host_open(4, nobody_else);
	socket = inode(at.sun_path);
	cr_assert_eq(unlink(lock), 0);
	cr_expect_eq(listened_as_someone(words), EACCES);
	cr_expect_eq(inode(at.sun_path), socket);
	cr_assert_eq(chmod(folder, 0755), 0);
	guest_enter();
	expect_guest_well();
	guest_leave();
}

/* With permission to connect, a stale socket is recognised. */
Test(shm, stale_socket_is_replaced_with_permission)
{
	const struct sockaddr_un at = socket_address();

	if (!may_be_others() || chmod(folder, 0777) < 0)
		cr_skip("only root can try to listen as others");
	for (int i = 0; i < 2; i++) {
		close(liar_listen());
		cr_assert_eq(i ? chown(at.sun_path, SOMEONE, SOMEONE) : 0, 0);
		cr_assert_eq(chmod(at.sun_path, i ? 0600 : 0666), 0);
		cr_expect_eq(listened_as_someone(""), 0);
		cr_expect_eq(access(at.sun_path, F_OK), -1, "it was not replaced");
	}
}

static void *end_when_somebody_came(void *listening)
{
	const int fd = *(int *)listening, came = accept4(fd, NULL, NULL, SOCK_CLOEXEC);

	close(fd);
	close(came);
	return NULL;
}

/* The lock of a process that was killed may be free before its socket is gone. */
Test(shm, ending_publisher_is_replaced)
{
	int listening = liar_listen();
	pthread_t ending;

	cr_assert_eq(pthread_create(&ending, NULL, end_when_somebody_came, &listening), 0);
	host_open(1, nobody_else);
	guest_enter();
	expect_guest_well();
	guest_leave();
	pthread_join(ending, NULL);
}

/* Only a socket is replaced. A publisher that finds another file leaves nothing. */
Test(shm, file_at_the_path_is_not_replaced)
{
	char path[128], lock[128], words[300];
	struct stat status;

	snprintf(path, sizeof(path), "%s/test.sock", folder);
	snprintf(words, sizeof(words),
		 "address shm:test: found something else at %s, expected a socket or nothing",
		 path);
	cr_assert_eq(mkdir(path, 0700), 0);
	expect_no_listening("test", EEXIST, words);
	cr_assert_eq(rmdir(path), 0);
	cr_assert_eq(close(open(path, O_CREAT | O_WRONLY, 0600)), 0);
	expect_no_listening("test", EEXIST, words);
	cr_expect_eq(lstat(path, &status), 0);
	cr_expect(S_ISREG(status.st_mode));
	snprintf(lock, sizeof(lock), "%s/test.lock", folder);
	cr_expect_lt(lstat(lock, &status), 0, "its lock is there still");
}

Test(shm, symlink_as_lock_is_not_followed)
{
	char lock[128], target[128], words[300];

	snprintf(lock, sizeof(lock), "%s/test.lock", folder);
	snprintf(target, sizeof(target), "%s/target", folder);
	cr_assert_eq(symlink(target, lock), 0);
	snprintf(words, sizeof(words), "address shm:test: %s cannot be opened: %s", lock,
		 strerror(ELOOP));
	expect_no_listening("test", ELOOP, words);
	cr_expect_eq(access(target, F_OK), -1);
}

/* Cuts what is in the folder off. */
static const char *folder_of(struct shm_location *place)
{
	char *slash = strrchr(place->lock, '/');

	if (slash && strstr(slash, ".lock"))
		*slash = '\0';
	return place->lock;
}

/* Runs as a user with a session folder. Returns 0, or the number of the failed expectation. */
static int session_folders(void)
{
	char own[128], elsewhere[128];
	const struct shm_address address = { .name = "test" };
	struct shm_search search;
	struct shm_origin origin;
	struct shm_location place;

	unsetenv("TICKBUS_RUNTIME_DIR");
	setenv("XDG_RUNTIME_DIR", folder, 1);
	snprintf(own, sizeof(own), "%s/tickbus", folder);
	snprintf(elsewhere, sizeof(elsewhere), "%s/elsewhere", folder);
	if (setresgid(65534, 65534, 65534) < 0 || setresuid(65534, 65534, 65534) < 0)
		return 1;
	if (access("/run/tickbus", W_OK) == 0)
		return 77;
	shm_search_begin(&search, &address);
	if (shm_search_connect(&search, -1, &origin) != -ECONNREFUSED)
		return 2;
	if (shm_location_listen("test", &place) < 0 || strcmp(folder_of(&place), own) != 0)
		return 3;
	if (chmod(own, 0770) < 0 || shm_location_listen("test", &place) < 0 ||
	    strcmp(folder_of(&place), own) == 0)
		return 4; /* others may write there: it is passed over */
	if (rmdir(folder_of(&place)) < 0)
		return 5;
	if (rmdir(own) < 0 || mkdir(elsewhere, 0700) < 0 || symlink(elsewhere, own) < 0)
		return 6;
	if (shm_location_listen("test", &place) < 0 || strcmp(folder_of(&place), own) == 0)
		return 7; /* someone else may have made the link */
	rmdir(folder_of(&place));
	unlink(own);
	rmdir(elsewhere);
	return 0;
}

Test(shm, session_folder_is_used_if_only_ours)
{
	int status;
	pid_t child;

	if (geteuid() != 0 || access("/tmp/tickbus-65534", F_OK) == 0)
		cr_skip("only root can try it as a user without folders");
	cr_assert_eq(chown(folder, 65534, 65534), 0);
	child = fork();
	if (child == 0)
		_exit(session_folders());
	cr_assert_eq(waitpid(child, &status, 0), child);
	cr_assert(WIFEXITED(status));
	if (WEXITSTATUS(status) == 77)
		cr_skip("everyone may write to /run/tickbus here");
	cr_assert_eq(WEXITSTATUS(status), 0, "expectation %d", WEXITSTATUS(status));
}
