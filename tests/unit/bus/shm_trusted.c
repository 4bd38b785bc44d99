/* SPDX-License-Identifier: Apache-2.0 */
/* From its own user a subscriber takes descriptors without a porter, and checks them as a porter
 * does. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bus/shm/shm_trust.h"
#include "tests/unit/bus/shm_scene.h"
#include "tickbus/error.h"

static int listening, liar;
static unsigned int before; /* descriptors of this process */

static bool known = true;

bool __wrap_shm_user_is_known(uid_t user);

bool __wrap_shm_user_is_known(uid_t user)
{
	(void)user;
	return known;
}

/* No porter could start. */
static void enter_alone(void)
{
	enter();
	setenv("TICKBUS_LIBEXEC_DIR", "/nowhere", 1);
	listening = liar_listen();
	liar = liar_accept(listening);
	before = descriptors();
}

static void leave_alone(void)
{
	close(liar);
	close(listening);
	leave();
}

TestSuite(trusted, .init = enter_alone, .fini = leave_alone, .timeout = 60);

/* Sealed memory of REGION_BYTES. */
static int memory(bool holed)
{
	static const char bytes[REGION_BYTES];
	const int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	cr_assert_geq(fd, 0);
	cr_assert_eq(ftruncate(fd, REGION_BYTES), 0);
	if (!holed)
		cr_assert_eq(pwrite(fd, bytes, sizeof(bytes), 0), sizeof(bytes));
	cr_assert_eq(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE), 0);
	return fd;
}

static void expect_end(int given, unsigned int copies, int code, const char *why)
{
	cr_assert(put_with(liar, "\2\0\0\0given", 9, given, copies));
	close(given);
	UNTIL(guest.gones == 1);
	cr_expect_eq(guest.code, code);
	cr_expect_str_eq(guest.why, why);
	cr_expect_eq(descriptors(), before, "found %u descriptors more", descriptors() - before);
	guest_leave();
}

Test(trusted, memory_comes_without_a_porter)
{
	const int given = memory(false);

	cr_assert(put_with(liar, "\2\0\0\0given", 9, given, 1));
	close(given);
	UNTIL(guest.welcomes == 1);
	cr_expect_eq(guest.opened, 0, "%s", tb_error());
	cr_expect_eq(descriptors(), before, "what is mapped needs no descriptor");
	guest_leave();
}

Test(trusted, other_descriptors_end_the_link_and_are_closed)
{
	expect_end(open("/dev/null", O_RDWR | O_CLOEXEC), 1, EPROTO,
		   "memory handed over: found a descriptor that is no memfd, expected sealed "
		   "memory");
}

Test(trusted, two_descriptors_end_the_link_and_are_closed)
{
	expect_end(memory(false), 2, EPROTO, "memory handed over: found 2 descriptors, expected 1");
}

Test(trusted, memory_with_a_hole_ends_the_link)
{
	expect_end(memory(true), 1, EPROTO,
		   "memory handed over: found no page at byte 0, expected all pages of its 8192 "
		   "bytes");
}

Test(trusted, missing_room_for_a_descriptor_is_named)
{
	const int given = memory(false), highest = dup(given);
	struct rlimit limit;

	cr_assert_geq(highest, 0);
	close(highest);
	cr_assert(put_with(liar, "\2\0\0\0given", 9, given, 1));
	cr_assert_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
	limit.rlim_cur = (rlim_t)highest;
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
	UNTIL(guest.gones == 1);
	cr_expect_eq(guest.code, EMFILE);
	cr_expect_str_eq(guest.why, "no descriptor is left for the memory that was handed over "
				    "(see ulimit -n)");
	close(given);
	guest_leave();
}

enum { TRUSTS_ROOT = 1, TRUSTS_OWN = 2, TRUSTS_OTHER = 4, TRUSTS_NOBODY = 8 };

/* The users that a process of these three numbers trusts. It ends at once: the leak sanitizer
 * cannot follow a process of two users. */
static int trusts_of(uid_t real, uid_t effective, uid_t saved)
{
	const pid_t child = fork();
	int status;

	if (child == 0) {
		if (setresuid(real, effective, saved) < 0)
			_exit(200);
		_exit((shm_trusts(0) ? TRUSTS_ROOT : 0) | (shm_trusts(effective) ? TRUSTS_OWN : 0) |
		      (shm_trusts(SOMEONE + 1) ? TRUSTS_OTHER : 0) |
		      (shm_trusts((uid_t)-1) ? TRUSTS_NOBODY : 0));
	}
	cr_assert_eq(waitpid(child, &status, 0), child);
	cr_assert(WIFEXITED(status));
	return WEXITSTATUS(status);
}

Test(trusted, users_are_root_and_our_own)
{
	const uid_t user = geteuid() == 0 ? SOMEONE : geteuid();

	cr_expect_eq(trusts_of(user, user, user), TRUSTS_ROOT | TRUSTS_OWN);
	known = false; /* as in a user namespace without this user's number */
	cr_expect_eq(trusts_of(user, user, user), TRUSTS_ROOT);
}

/* A process of root that works for a user for a while: that user could send it no signal. */
Test(trusted, user_of_a_while_is_not_our_own)
{
	if (geteuid() != 0)
		cr_skip("only root can become another user");
	cr_expect_eq(trusts_of(0, SOMEONE, 0), TRUSTS_ROOT);
	cr_expect_eq(trusts_of(0, SOMEONE, SOMEONE), TRUSTS_ROOT);
	cr_expect_eq(trusts_of(SOMEONE, SOMEONE, 0), TRUSTS_ROOT);
}
