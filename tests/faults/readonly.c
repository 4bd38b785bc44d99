/* SPDX-License-Identifier: Apache-2.0 */
/* A subscriber cannot write to the memory of a topic that it joined, nor to the bus page. Every way
 * is tried, with the descriptors that a join hands over and with the library's own mappings of
 * them. The test runs as the publisher's own user, which may do the most. tests/unit/bus/memory.c
 * tries memory without a publisher. */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/memfd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "bus/memory.h"
#include "publisher/state.h"
#include "subscriber/state.h"
#include "tests/support/scene.h"

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif
#ifndef F_SEAL_EXEC
#define F_SEAL_EXEC 0x0020
#endif

#define SLOTS   64
#define RECORDS 10

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

static int received[2];
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
		cr_assert_lt(
			received_count, 2,
			"found a third descriptor, expected the bus page and a topic's memory");
		memcpy(&arrived, CMSG_DATA(c), sizeof(arrived));
		received[received_count] = fcntl(arrived, F_DUPFD_CLOEXEC, 0);
		cr_assert_geq(received[received_count++], 0);
	}
	return got;
}

static int received_of(const struct memory *memory)
{
	struct stat theirs, status;

	cr_assert_eq(received_count, 2);
	cr_assert_eq(fstat(memory->fd, &theirs), 0);
	for (size_t i = 0; i < received_count; i++) {
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

static void aim(enum whose whose)
{
	const struct memory *memory =
		whose == A_TOPIC ? &topic->memory : &publisher->realms[0].page;

	fd = received_of(memory);
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

TestSuite(readonly, .init = enter, .fini = leave, .timeout = 60);

#define EITHER(name)                                                                               \
	ParameterizedTestParameters(readonly, name)                                                \
	{                                                                                          \
		static enum whose whose[] = { A_TOPIC, THE_BUS_PAGE };                             \
                                                                                                   \
		return cr_make_param_array(enum whose, whose, 2);                                  \
	}                                                                                          \
	ParameterizedTest(enum whose *whose, readonly, name)

/* A call that must fail, and how. */
#define FAILS(call, code)                                                                          \
	do {                                                                                       \
		errno = 0;                                                                         \
		cr_expect((long)(call) == -1L && errno == (code), "%s: expected %s, found %s",     \
			  #call, strerror(code), strerror(errno));                                 \
	} while (0)

/* -- attacks ------------------------------------------------------------------------------------
 */

/* The descriptor is open for writing, so only the seals can refuse these calls. */
static void attack(int theirs)
{
	char text[64] = "overwritten";
	struct iovec part = { text, sizeof(text) };
	const off_t last = (off_t)(bytes - sizeof(text)), page = (off_t)bytes - REGION_PAGE;
	int pipes[2];

	cr_assert_eq(fcntl(theirs, F_GETFL) & O_ACCMODE, O_RDWR);
	cr_assert_eq(pipe(pipes), 0);
	cr_assert_eq(write(pipes[1], text, sizeof(text)), (ssize_t)sizeof(text));
	FAILS(write(theirs, text, sizeof(text)), EPERM);
	FAILS(pwrite(theirs, text, sizeof(text), last), EPERM);
	FAILS(pwritev(theirs, &part, 1, last), EPERM);
	FAILS(splice(pipes[0], NULL, theirs, &(loff_t){ last }, sizeof(text), 0), EPERM);
	FAILS(copy_file_range(theirs, &(loff_t){ 0 }, theirs, &(loff_t){ last }, 64, 0), EPERM);
	FAILS(ftruncate(theirs, 0), EPERM);
	FAILS(ftruncate(theirs, (off_t)bytes / 2), EPERM);
	FAILS(ftruncate(theirs, (off_t)bytes * 2), EPERM);
	FAILS(fallocate(theirs, 0, 0, (off_t)bytes * 2), EPERM);
	FAILS(fallocate(theirs, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, page, REGION_PAGE),
	      EPERM);
	FAILS((intptr_t)mmap(NULL, bytes, PROT_WRITE, MAP_SHARED, theirs, 0), EPERM);
	FAILS((intptr_t)mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, theirs, 0), EPERM);
	close(pipes[0]);
	close(pipes[1]);
}

EITHER(joined_memory_cannot_be_written)
{
	aim(*whose);
	attack(fd);
	expect_unchanged();
}

EITHER(joined_memory_opened_again_cannot_be_written)
{
	char path[64];
	int again;

	aim(*whose);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	again = open(path, O_RDWR);
	cr_assert_geq(again, 0, "%s", strerror(errno)); /* the file's own mode allows it */
	attack(again);
	close(again);
	FAILS(open(path, O_RDWR | O_TRUNC), EPERM);
	FAILS(truncate(path, 0), EPERM);
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
