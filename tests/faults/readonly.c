/* SPDX-License-Identifier: Apache-2.0 */
/* A subscriber cannot write to the memory of a topic that it joined, nor to the bus page, and
 * leaves nothing behind in them. Every way is tried, with the descriptors that a join hands over
 * and with the library's own mappings of them. Most tests run as the publisher's own user, which
 * may do the most; what only the file's mode refuses is tried as another user.
 * tests/unit/bus/memory.c tries memory without a publisher. */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/memfd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "bus/memory.h"
#include "publisher/state.h"
#include "subscriber/state.h"
#include "tests/support/deadline.h"
#include "tests/support/scene.h"

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif
#ifndef F_SEAL_EXEC
#define F_SEAL_EXEC 0x0020
#endif
#ifndef F_SET_RW_HINT
#define F_SET_RW_HINT 1036
#endif

#define SLOTS   64
#define RECORDS 10
#define SOMEONE 65423 /* a user that no other test is */

enum whose { A_TOPIC, THE_BUS_PAGE };

static struct tb_publisher *publisher;
static struct tb_topic *topic;
static struct tb_subscriber *subscriber;
static struct notes notes;

/* What the test attacks: a descriptor, and the mapping that its subscriber reads. */
static int fd;
static void *view;
static size_t bytes, quiet_from; /* the publisher writes only before quiet_from */
static void *kept;               /* a copy of the memory before the attack */

/* -- descriptors as they arrive -----------------------------------------------------------------
 */

static int received[4]; /* the first subscriber's, then a second one's */
static size_t received_count;

ssize_t __real_recvmsg(int socket, struct msghdr *message, int flags);
ssize_t __wrap_recvmsg(int socket, struct msghdr *message, int flags);

/* The linker puts this between the library and the system. It duplicates the descriptors, as the
 * library closes its own after mapping them. */
ssize_t __wrap_recvmsg(int socket, struct msghdr *message, int flags)
{
	const ssize_t got = __real_recvmsg(socket, message, flags);
	int arrived;

	for (struct cmsghdr *c = got > 0 ? CMSG_FIRSTHDR(message) : NULL; c;
	     c = CMSG_NXTHDR(message, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		cr_assert_eq(c->cmsg_len, CMSG_LEN(sizeof(arrived)));
		cr_assert_lt(received_count, 4,
			     "found a fifth descriptor, expected the bus page and a topic's memory "
			     "for each subscriber");
		memcpy(&arrived, CMSG_DATA(c), sizeof(arrived));
		received[received_count] = fcntl(arrived, F_DUPFD_CLOEXEC, 0);
		cr_assert_geq(received[received_count++], 0);
	}
	return got;
}

static bool strangers; /* subscriber and publisher are of different users */

bool __wrap_shm_trusts(uid_t user);

bool __wrap_shm_trusts(uid_t user)
{
	(void)user;
	return !strangers;
}

static int received_of(const struct memory *memory, size_t from)
{
	struct stat theirs, status;

	cr_assert_eq(received_count, from + 2);
	cr_assert_eq(fstat(memory->fd, &theirs), 0);
	for (size_t i = from; i < received_count; i++) {
		cr_assert_eq(fstat(received[i], &status), 0);
		if (status.st_ino == theirs.st_ino && status.st_dev == theirs.st_dev)
			return received[i];
	}
	cr_assert_fail("no descriptor of this memory was received");
	return -1;
}

/* -- the scene ----------------------------------------------------------------------------------
 */

static void enter(void)
{
	scene_enter();
	publisher = scene_publisher("shm");
	topic = scene_topic(publisher, "t", SLOTS, 0);
	scene_publish(topic, 1, RECORDS);
	subscriber = scene_subscriber("shm", 0);
	notes.quiet = true;
	scene_subscribe(subscriber, "t", TB_FROM_OLDEST, &notes);
	cr_assert(scene_poll_until(subscriber, &notes.records, RECORDS));
}

static const struct memory *memory_of(enum whose whose)
{
	return whose == A_TOPIC ? &topic->memory : &publisher->realms[0].page;
}

static void aim(enum whose whose)
{
	const struct memory *memory = memory_of(whose);

	fd = received_of(memory, 0);
	view = (void *)(uintptr_t)(whose == A_TOPIC ? subscriber->table[0]->mapping.view
						    : subscriber->page_view);
	bytes = memory->bytes;
	/* The publisher keeps writing the page's pulse and the topic's entry. */
	quiet_from = whose == A_TOPIC ? 0 : sizeof(struct bus_pulse) + sizeof(struct bus_entry);
	kept = malloc(bytes);
	cr_assert_not_null(kept);
	memcpy(kept, view, bytes);
}

/* The memory is unchanged, and its subscriber reads on. Each test calls this itself: Criterion
 * ignores failures in .fini. */
static void expect_unchanged(void)
{
	cr_expect(kept && memcmp((char *)view + quiet_from, (char *)kept + quiet_from,
				 bytes - quiet_from) == 0);
	scene_publish(topic, RECORDS + 1, 2 * RECORDS);
	cr_expect(scene_poll_until(subscriber, &notes.records, 2 * RECORDS));
	cr_expect_eq(notes.wrong + notes.lost, 0);
	cr_expect_not(notes.restarted || notes.ended);
}

static void leave(void)
{
	tb_subscriber_close(subscriber);
	tb_publisher_close(publisher);
	for (size_t i = 0; i < received_count; i++)
		close(received[i]);
	free(kept);
	scene_leave();
}

static void enter_as_strangers(void)
{
	strangers = true;
	enter();
}

TestSuite(readonly, .init = enter, .fini = leave, .timeout = 60);
TestSuite(strangers, .init = enter_as_strangers, .fini = leave, .timeout = 60);

#define EITHER(name) EITHER_OF(readonly, name)
#define EITHER_OF(suite, name)                                                                     \
	ParameterizedTestParameters(suite, name)                                                   \
	{                                                                                          \
		static enum whose whose[] = { A_TOPIC, THE_BUS_PAGE };                             \
                                                                                                   \
		return cr_make_param_array(enum whose, whose, 2);                                  \
	}                                                                                          \
	ParameterizedTest(enum whose *whose, suite, name)

/* A call that must fail, and how. */
#define FAILS(call, code)                                                                          \
	do {                                                                                       \
		errno = 0;                                                                         \
		cr_expect((long)(call) == -1L && errno == (code), "%s: expected %s, found %s",     \
			  #call, strerror(code), strerror(errno));                                 \
	} while (0)

/* -- attacks ------------------------------------------------------------------------------------
 */

/* Open for writing, only the seals refuse these calls; open for reading, the open file does. */
static void attack(int theirs, bool writable)
{
	const int code = writable ? EPERM : EBADF, map = writable ? EPERM : EACCES;
	const int cut = writable ? EPERM : EINVAL;
	char text[64] = "overwritten";
	struct iovec part = { text, sizeof(text) };
	const off_t last = (off_t)(bytes - sizeof(text)), page = (off_t)bytes - REGION_PAGE;
	int pipes[2];

	cr_assert_eq(fcntl(theirs, F_GETFL) & O_ACCMODE, writable ? O_RDWR : O_RDONLY);
	cr_assert_eq(pipe(pipes), 0);
	cr_assert_eq(write(pipes[1], text, sizeof(text)), (ssize_t)sizeof(text));
	FAILS(write(theirs, text, sizeof(text)), code);
	FAILS(pwrite(theirs, text, sizeof(text), last), code);
	FAILS(pwritev(theirs, &part, 1, last), code);
	FAILS(splice(pipes[0], NULL, theirs, &(loff_t){ last }, sizeof(text), 0), code);
	FAILS(copy_file_range(theirs, &(loff_t){ 0 }, theirs, &(loff_t){ last }, 64, 0), code);
	FAILS(ftruncate(theirs, 0), cut);
	FAILS(ftruncate(theirs, (off_t)bytes / 2), cut);
	FAILS(ftruncate(theirs, (off_t)bytes * 2), cut);
	FAILS(fallocate(theirs, 0, 0, (off_t)bytes * 2), code);
	FAILS(fallocate(theirs, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, page, REGION_PAGE),
	      code);
	FAILS((intptr_t)mmap(NULL, bytes, PROT_WRITE, MAP_SHARED, theirs, 0), map);
	FAILS((intptr_t)mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, theirs, 0), map);
	close(pipes[0]);
	close(pipes[1]);
}

EITHER(joined_memory_cannot_be_written)
{
	aim(*whose);
	attack(fd, false);
	expect_unchanged();
}

/* The file's mode stops its owner too, but not root. */
EITHER(joined_memory_opened_again_cannot_be_written)
{
	const int code = geteuid() == 0 ? EPERM : EACCES;
	char path[64];
	int again;

	aim(*whose);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	again = open(path, O_RDWR);
	cr_assert(again >= 0 || (geteuid() != 0 && errno == EACCES), "%s", strerror(errno));
	if (again >= 0)
		attack(again, true);
	close(again);
	FAILS(open(path, O_RDWR | O_TRUNC), code);
	FAILS(truncate(path, 0), code);
	expect_unchanged();
}

/* Without the seal that the kernel may have added itself (vm.memfd_noexec). */
static int seals_of(int theirs)
{
	const int seals = fcntl(theirs, F_GET_SEALS);

	return seals < 0 ? seals : seals & ~F_SEAL_EXEC;
}

EITHER(joined_memory_keeps_all_its_seals)
{
	static const int more[] = { F_SEAL_WRITE, F_SEAL_SEAL, 0 };
	const int seals = F_SEAL_FUTURE_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

	aim(*whose);
	cr_expect_eq(seals_of(fd), seals);
	for (size_t i = 0; i < sizeof(more) / sizeof(more[0]); i++)
		FAILS(fcntl(fd, F_ADD_SEALS, more[i]), EPERM);
	/* Kernels before 6.3 do not know F_SEAL_EXEC. */
	cr_expect(fcntl(fd, F_ADD_SEALS, F_SEAL_EXEC) == -1 && (errno == EPERM || errno == EINVAL),
		  "found %s", strerror(errno));
	cr_expect_eq(seals_of(fd), seals);
	expect_unchanged();
}

/* Attacks a mapping: the library's, or the test's own. */
static void attack_mapping(void *base)
{
	char text[64] = "overwritten";
	struct iovec from = { text, sizeof(text) }, to = { base, sizeof(text) };
	int zero = open("/dev/zero", O_RDONLY), self = open("/proc/self/mem", O_RDWR);

	FAILS(mprotect(base, bytes, PROT_READ | PROT_WRITE), EACCES);
	FAILS(mprotect(base, bytes, PROT_WRITE), EACCES);
	FAILS(read(zero, base, sizeof(text)), EFAULT);
	FAILS(pwrite(self, text, sizeof(text), (off_t)(uintptr_t)base), EIO);
	FAILS(process_vm_writev(getpid(), &from, 1, &to, 1, 0), EFAULT);
	FAILS(madvise(base, REGION_PAGE, MADV_REMOVE), EACCES);
	close(zero);
	close(self);
}

EITHER(joined_memory_cannot_be_mapped_writable)
{
	void *own;

	aim(*whose);
	own = mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, 0);
	cr_assert_neq(own, MAP_FAILED);
	attack_mapping(own);
	munmap(own, bytes);
	attack_mapping(view);
	expect_unchanged();
}

/* -- another user -------------------------------------------------------------------------------
 */

/* In a child: Criterion counts no failures there. */
#define DENIED(call, code)                                                                         \
	do {                                                                                       \
		errno = 0;                                                                         \
		if ((call) != -1 || errno != (code)) {                                             \
			fprintf(stderr, "%s: expected %s, found %s\n", #call, strerror(code),      \
				strerror(errno));                                                  \
			allowed++;                                                                 \
		}                                                                                  \
	} while (0)

/* Calls that kernels before 6.6 or 6.9 do not know or do not restrict. */
#define DENIED_OR_UNKNOWN(call, code, unknown)                                                     \
	do {                                                                                       \
		const int result = (call);                                                         \
                                                                                                   \
		if (result != -1 || (errno != (code) && errno != (unknown))) {                     \
			fprintf(stderr, "%s: expected %s, found %s\n", #call, strerror(code),      \
				result < 0 ? strerror(errno) : "success");                         \
			allowed++;                                                                 \
		}                                                                                  \
	} while (0)

/* Tries to change the file itself. Returns how many calls were not refused as expected. */
static int change_file(void)
{
	const struct timespec times[2] = { { 1, 0 }, { 1, 0 } };
	const int flags = FS_NODUMP_FL;
	char *const nothing[] = { NULL };
	char path[64];
	int allowed = 0;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	DENIED(fchmod(fd, 0777), EPERM);
	DENIED(chmod(path, 0666), EPERM);
	DENIED(fchown(fd, SOMEONE, SOMEONE), EPERM);
	DENIED_OR_UNKNOWN(fsetxattr(fd, "user.tickbus", "x", 1, 0), EACCES, EOPNOTSUPP);
	DENIED_OR_UNKNOWN(fsetxattr(fd, "trusted.tickbus", "x", 1, 0), EPERM, EOPNOTSUPP);
	DENIED_OR_UNKNOWN(fsetxattr(fd, "security.tickbus", "x", 1, 0), EPERM, EOPNOTSUPP);
	DENIED(futimens(fd, NULL), EACCES);
	DENIED(futimens(fd, times), EPERM);
	DENIED_OR_UNKNOWN(ioctl(fd, FS_IOC_SETFLAGS, &flags), EPERM, ENOTTY);
	DENIED(fcntl(fd, F_SETLEASE, F_RDLCK), EACCES);
	DENIED(fcntl(fd, F_SETLEASE, F_WRLCK), EACCES);
	DENIED(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE), EPERM);
	DENIED(ftruncate(fd, 0), EINVAL);
	DENIED(fallocate(fd, 0, 0, 1), EBADF);
	DENIED(open(path, O_WRONLY), EACCES);
	DENIED(open(path, O_RDWR), EACCES);
	DENIED(open(path, O_RDWR | O_TRUNC), EACCES);
	DENIED(truncate(path, 0), EACCES);
	DENIED(fcntl(fd, F_SETLK, &(struct flock){ .l_type = F_WRLCK }), EBADF);
	DENIED(fexecve(fd, nothing, nothing), EACCES);
	return allowed;
}

static void as_other_user(int (*act)(void))
{
	const pid_t child = fork();
	int status;

	if (child == 0)
		_exit(setresgid(SOMEONE, SOMEONE, SOMEONE) < 0 ||
				      setresuid(SOMEONE, SOMEONE, SOMEONE) < 0
			      ? 100
			      : act());
	cr_assert_eq(waitpid(child, &status, 0), child);
	cr_assert(WIFEXITED(status), "status %x", status);
	cr_assert_neq(WEXITSTATUS(status), 100, "cannot become another user");
	cr_expect_eq(WEXITSTATUS(status), 0, "%d calls were not refused", WEXITSTATUS(status));
}

EITHER(other_user_cannot_change_the_file_it_received)
{
	struct stat status;

	if (geteuid() != 0)
		cr_skip("only root can become another user");
	aim(*whose);
	as_other_user(change_file);
	cr_assert_eq(fstat(fd, &status), 0);
	cr_expect_eq(status.st_mode & 07777, 0444);
	cr_expect_eq(status.st_uid, geteuid());
	cr_expect_eq(flistxattr(fd, NULL, 0), 0);
	expect_unchanged();
}

/* Kernels before 6.9 let every holder set the hint; nothing of memory reads it. */
static int hint_file(void)
{
	const uint64_t extreme = 5;

	return fcntl(fd, F_SET_RW_HINT, &extreme) == -1 && errno == EPERM ? 0 : 1;
}

EITHER(other_user_cannot_hint_at_the_life_of_writes)
{
	if (geteuid() != 0)
		cr_skip("only root can become another user");
	if (fcntl(received[0], F_SET_RW_HINT, &(uint64_t){ 0 }) < 0)
		cr_skip("this kernel has no hints for memory");
	aim(*whose);
	as_other_user(hint_file);
}

/* -- what receivers share -----------------------------------------------------------------------
 */

static struct tb_subscriber *second;

/* Another subscriber of the topic; returns its descriptor. */
static int second_enter(enum whose whose)
{
	static struct notes second_notes;

	second = scene_subscriber("shm", 0);
	second_notes.quiet = true;
	scene_subscribe(second, "t", TB_FROM_OLDEST, &second_notes);
	cr_assert(scene_poll_until(second, &second_notes.records, RECORDS));
	return received_of(memory_of(whose), 2);
}

EITHER_OF(strangers, share_no_flags_position_or_owner)
{
	int other;

	aim(*whose);
	cr_assert_eq(fcntl(fd, F_SETFL, O_NONBLOCK | O_APPEND), 0);
	cr_assert_eq(fcntl(fd, F_SETOWN, getpid()), 0);
	cr_assert_eq(fcntl(fd, F_SETSIG, SIGUSR1), 0);
	cr_assert_eq(lseek(fd, 100, SEEK_SET), 100);
	other = second_enter(*whose);
	for (int i = 0; i < 2; i++) {
		const int theirs = i == 0 ? other : memory_of(*whose)->fd;

		cr_expect_eq(fcntl(theirs, F_GETFL) & (O_NONBLOCK | O_APPEND), 0);
		cr_expect_eq(fcntl(theirs, F_GETOWN), 0);
		cr_expect_eq(fcntl(theirs, F_GETSIG), 0);
		cr_expect_neq(lseek(theirs, 0, SEEK_CUR), 100);
	}
	tb_subscriber_close(second);
	expect_unchanged();
}

/* Receivers of the publisher's own user share a file. */
EITHER(file_of_trusted_receivers_goes_to_no_stranger)
{
	int other;

	aim(*whose);
	strangers = true;
	other = second_enter(*whose);
	cr_assert_eq(fcntl(other, F_SETFL, O_NONBLOCK), 0);
	cr_expect_eq(fcntl(fd, F_GETFL) & O_NONBLOCK, 0);
	tb_subscriber_close(second);
	expect_unchanged();
}

/* A mapping keeps the open file too. */
static void receiver_ends(void)
{
	tb_subscriber_close(subscriber);
	subscriber = NULL;
	for (size_t i = 0; i < received_count; i++)
		close(received[i]);
	received_count = 0;
}

/* Whether no other process holds a lock of this file. */
static bool lock_free(int file)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };

	cr_assert_eq(fcntl(file, F_OFD_GETLK, &lock), 0);
	return lock.l_type == F_UNLCK && flock(file, LOCK_EX | LOCK_NB) == 0;
}

EITHER_OF(strangers, leave_no_locks)
{
	struct flock lock = { .l_type = F_RDLCK, .l_whence = SEEK_SET };
	const uint64_t until_ms = scene_now_ms() + deadline_ms();
	int other;

	aim(*whose);
	for (lock.l_start = 0; lock.l_start < 200; lock.l_start += 2) {
		lock.l_len = 1;
		cr_assert_eq(fcntl(fd, F_OFD_SETLK, &lock), 0);
	}
	cr_assert_eq(flock(fd, LOCK_EX), 0);
	receiver_ends();
	other = memory_of(*whose)->fd;
	while (!lock_free(other)) /* the porter that passed the memory on ends too */
		cr_assert_lt(scene_now_ms(), until_ms, "a lock stays");
	cr_expect_eq(flock(other, LOCK_UN), 0);
}
