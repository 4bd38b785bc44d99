/* SPDX-License-Identifier: Apache-2.0 */
/* tickbus-bench-joins: what joining many topics over shared memory costs. Prints a line of JSON.
 *
 *   tickbus-bench-joins rejoin TOPICS ROUNDS
 *   tickbus-bench-joins other TOPICS ROUNDS
 *   tickbus-bench-joins many TOPICS SUBSCRIBERS
 *
 * - rejoin: the connection of a subscriber of TOPICS topics is lost. us from its connect() until
 *   the last topic is joined again, while records flow and while none flow. The yardstick
 *   alternates with it: a bare loop that passes and maps as many memfds of the same size.
 * - other: the same with a publisher of another user, so a porter receives the memory. Needs root.
 * - many: SUBSCRIBERS processes subscribe to all topics at the same time. us until the last of
 *   them has joined all.
 *
 * The publisher is a process of its own, on the second core. This program's connect() and
 * recvmsg() stand before those of the C library, and show when the library calls them. */
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/bench.h"
#include "tickbus/publisher.h"
#include "tickbus/subscriber.h"

#define TOPICS_MAX   1024
#define SLOTS        64
#define NAMES        64
#define REGION_BYTES ((size_t)5 * 4096) /* of a topic: five parts of a page */
#define BACKLOG      65536 /* records that wait for the subscriber, so that they flow */
#define POLL_RECORDS 4
#define GIVE_UP_S    120
#define OTHER        12321 /* a user; any number that no user has */

/* -- what the library calls ---------------------------------------------------------------------
 */

#define SEEN __attribute__((visibility("default"))) /* by the library */

static struct {
	int socket;
	double connect_us;        /* of the last connect() */
	unsigned int descriptors; /* that came since then */
} seen = { .socket = -1 };

static double now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

SEEN int connect(int socket, __CONST_SOCKADDR_ARG address, socklen_t bytes)
{
	seen.socket = socket;
	seen.descriptors = 0;
	seen.connect_us = now_us();
	return (int)syscall(SYS_connect, socket, address.__sockaddr__, bytes);
}

SEEN ssize_t recvmsg(int socket, struct msghdr *message, int flags)
{
	const ssize_t bytes = syscall(SYS_recvmsg, socket, message, flags);

	if (bytes >= 0 && message->msg_controllen > 0)
		seen.descriptors++;
	return bytes;
}

static void expect(int result, const char *what)
{
	if (result < 0)
		machine_fail("%s: %s", what, tb_error());
}

/* -- the publisher's process --------------------------------------------------------------------
 */

static struct tb_topic *topic_create(struct tb_publisher *publisher, struct tb_schema *schema,
				     const char *name, uint32_t slots)
{
	const struct tb_topic_options how = { .size = sizeof(how),
					      .name = name,
					      .schema = schema,
					      .slots = slots,
					      .instruments = NAMES };
	struct tb_topic *topic;

	expect(tb_topic_create(publisher, &how, &topic), "topic");
	return topic;
}

/* The last topic has records that wait. */
static struct tb_topic *bus_open(unsigned int topics, struct tb_publisher **publisher)
{
	static const char text[] = "name: bench\nversion: 1\n"
				   "fields:\n- {name: word, type: u64, doc: word}\n";
	const struct tb_publisher_options bus = { .size = sizeof(bus),
						  .name = "bench-joins",
						  .topics_max = topics,
						  .exit_wait_ms = UINT32_MAX };
	struct tb_schema *schema;
	struct tb_topic *last;
	char name[32];

	expect(tb_schema_parse(&schema, text, strlen(text), "bench"), "schema");
	expect(tb_publisher_open(publisher, &bus), "publisher");
	for (unsigned int i = 0; i + 1 < topics; i++) {
		snprintf(name, sizeof(name), "exchange.feed%u.quote", i);
		topic_create(*publisher, schema, name, SLOTS);
	}
	last = topic_create(*publisher, schema, "exchange.flow.quote", BACKLOG);
	tb_schema_free(schema);
	return last;
}

static void backlog_publish(struct tb_topic *topic, unsigned int records)
{
	const int instrument = tb_instrument(topic, "A");
	const uint64_t word = 1;
	const struct tb_update update = { .size = sizeof(update),
					  .instrument = (uint32_t)instrument,
					  .kind = TB_KIND_UPDATE,
					  .length = sizeof(word),
					  .data = &word };

	for (unsigned int i = 0; i < records; i++)
		expect(tb_publish(topic, &update), "publish");
	expect(tb_flush(topic), "flush");
}

static void memfds_make(int *fds, unsigned int count)
{
	for (unsigned int i = 0; i < count; i++) {
		fds[i] = memfd_create("bench", MFD_CLOEXEC);
		if (fds[i] < 0 || ftruncate(fds[i], (off_t)REGION_BYTES) < 0)
			machine_fail("memfd: %s", strerror(errno));
	}
}

static void descriptor_send(int socket, int fd)
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(fd))] = { 0 };
	struct iovec part = { .iov_base = &(char){ 1 }, .iov_len = 1 };
	struct msghdr header = { .msg_iov = &part,
				 .msg_iovlen = 1,
				 .msg_control = control,
				 .msg_controllen = sizeof(control) };
	struct cmsghdr *c = CMSG_FIRSTHDR(&header);

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(fd));
	memcpy(CMSG_DATA(c), &fd, sizeof(fd));
	if (sendmsg(socket, &header, 0) < 0)
		machine_fail("sendmsg: %s", strerror(errno));
}

/* Obeys: 'b' passes the memfds, 'r' publishes a backlog. Ends with its parent. */
static _Noreturn void publisher_main(int orders, unsigned int topics, bool other)
{
	static int fds[TOPICS_MAX];
	struct tb_publisher *publisher;
	struct tb_topic *last;
	char order = 'o'; /* open */

	machine_pin(1);
	if (other && (setresgid(OTHER, OTHER, OTHER) < 0 || setresuid(OTHER, OTHER, OTHER) < 0))
		machine_fail("cannot become another user: %s", strerror(errno));
	prctl(PR_SET_PDEATHSIG, SIGKILL); /* a change of the user ends it */
	last = bus_open(topics, &publisher);
	memfds_make(fds, topics);
	do {
		if (order == 'b')
			for (unsigned int i = 0; i < topics; i++)
				descriptor_send(orders, fds[i]);
		else if (order == 'r')
			backlog_publish(last, BACKLOG / 2);
		if (order != 'b' && write(orders, &order, 1) != 1)
			break;
	} while (read(orders, &order, 1) == 1);
	tb_publisher_close(publisher);
	_exit(0);
}

static int publisher_start(unsigned int topics, bool other, pid_t *child)
{
	const char *folder = getenv("TICKBUS_RUNTIME_DIR");
	int sockets[2];
	char opened;

	if (other && (!folder || chown(folder, OTHER, OTHER) < 0))
		machine_fail("cannot give the folder to another user: %s", strerror(errno));
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) < 0)
		machine_fail("socketpair: %s", strerror(errno));
	*child = fork();
	if (*child < 0)
		machine_fail("fork: %s", strerror(errno));
	if (*child == 0) {
		close(sockets[0]);
		publisher_main(sockets[1], topics, other);
	}
	close(sockets[1]);
	if (read(sockets[0], &opened, 1) != 1)
		machine_fail("the publisher ended before it was ready");
	return sockets[0];
}

/* -- the subscriber's process -------------------------------------------------------------------
 */

static uint64_t records;

static void on_record(void *user, const struct tb_source *source, const struct tb_record *record)
{
	(void)user;
	(void)source;
	(void)record;
	records++;
}

static struct tb_subscriber *subscriber_open(void)
{
	const struct tb_subscriber_options how = { .size = sizeof(how),
						   .address = "shm:bench-joins",
						   .connect_ms = 60000,
						   .topics_max = TOPICS_MAX };
	struct tb_subscriber *subscriber;

	expect(tb_subscriber_open(&subscriber, &how), "subscriber");
	return subscriber;
}

static void subscribe(struct tb_subscriber *subscriber)
{
	const struct tb_subscription_options how = { .size = sizeof(how), .on_record = on_record };
	struct tb_subscription *subscription;

	expect(tb_subscribe(subscriber, ">", &how, &subscription), "subscribe");
}

/* us of the bare loop: each memfd is received and mapped, and its descriptor is closed. Unmapping
 * is not counted. */
static double bare_take(int orders, unsigned int topics)
{
	static void *bases[TOPICS_MAX];
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))];
	struct iovec part = { .iov_base = &(char){ 0 }, .iov_len = 1 };
	const double from = now_us();
	double us;

	if (write(orders, "b", 1) != 1)
		machine_fail("write: %s", strerror(errno));
	for (unsigned int i = 0; i < topics; i++) {
		struct msghdr header = { .msg_iov = &part,
					 .msg_iovlen = 1,
					 .msg_control = control,
					 .msg_controllen = sizeof(control) };
		int fd;

		if (recvmsg(orders, &header, MSG_CMSG_CLOEXEC) != 1 || !CMSG_FIRSTHDR(&header))
			machine_fail("found no descriptor: %s", strerror(errno));
		memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&header)), sizeof(fd));
		bases[i] = mmap(NULL, REGION_BYTES, PROT_READ, MAP_SHARED, fd, 0);
		if (bases[i] == MAP_FAILED)
			machine_fail("mmap: %s", strerror(errno));
		close(fd);
	}
	us = now_us() - from;
	for (unsigned int i = 0; i < topics; i++)
		munmap(bases[i], REGION_BYTES);
	return us;
}

static void poll_once(struct tb_subscriber *subscriber, int max)
{
	const int count = tb_poll(subscriber, max);

	expect(count, "poll");
	if (count == 0)
		expect(tb_wait(subscriber, 10), "wait");
}

static void drain(struct tb_subscriber *subscriber)
{
	uint64_t before;

	do {
		before = records;
		for (int i = 0; i < 100; i++)
			poll_once(subscriber, 1024);
	} while (records != before);
}

/* us from connect() until the last topic is joined again: a descriptor for each, and for the bus
 * page. The connection is lost by shutdown(), which both sides see. */
static double rejoin_take(struct tb_subscriber *subscriber, unsigned int topics)
{
	const double from = now_us();
	double now = from;
	int count;

	seen.descriptors = 0;
	shutdown(seen.socket, SHUT_RDWR);
	for (;;) {
		count = tb_poll(subscriber, POLL_RECORDS);
		now = now_us();
		expect(count, "poll");
		if (seen.descriptors > topics)
			return now - seen.connect_us;
		if (now - from > GIVE_UP_S * 1e6)
			machine_fail("%u of %u topics were joined again in %d s", seen.descriptors,
				     topics, GIVE_UP_S);
		if (count == 0)
			expect(tb_wait(subscriber, 10), "wait");
	}
}

static void rejoin(unsigned int topics, unsigned int rounds, bool other)
{
	struct tb_subscriber *subscriber;
	pid_t child;
	const int orders = publisher_start(topics, other, &child);
	const char *comma = "";
	char done;

	machine_pin(0);
	subscriber = subscriber_open();
	subscribe(subscriber);
	drain(subscriber);
	printf("{\"rounds\": [");
	for (unsigned int i = 0; i < rounds; i++, comma = ", ") {
		printf("%s{\"bare\": %.1f", comma, bare_take(orders, topics));
		printf(", \"idle\": %.1f", rejoin_take(subscriber, topics));
		if (write(orders, "r", 1) != 1 || read(orders, &done, 1) != 1)
			machine_fail("the publisher ended");
		printf(", \"flowing\": %.1f", rejoin_take(subscriber, topics));
		printf(", \"bare_after\": %.1f}", bare_take(orders, topics));
		drain(subscriber);
	}
	printf("]}\n");
	tb_subscriber_close(subscriber);
	close(orders);
	waitpid(child, NULL, 0);
}

/* -- many subscribers ---------------------------------------------------------------------------
 */

struct desk {
	_Atomic unsigned int ready, joined;
	_Atomic bool start;
};

static _Noreturn void many_main(struct desk *desk)
{
	struct tb_subscriber *subscriber;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	subscriber = subscriber_open();
	atomic_fetch_add(&desk->ready, 1);
	while (!atomic_load(&desk->start))
		usleep(200);
	subscribe(subscriber);
	atomic_fetch_add(&desk->joined, 1);
	while (atomic_load(&desk->start))
		usleep(1000);
	tb_subscriber_close(subscriber);
	_exit(0);
}

static void many_await(const _Atomic unsigned int *count, unsigned int wanted)
{
	while (atomic_load(count) < wanted) {
		if (waitpid(-1, NULL, WNOHANG) > 0)
			machine_fail("a process ended early");
		usleep(200);
	}
}

static void many(unsigned int topics, unsigned int subscribers)
{
	struct desk *desk = mmap(NULL, sizeof(*desk), PROT_READ | PROT_WRITE,
				 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	double from;
	pid_t child;
	const int orders = publisher_start(topics, false, &child);

	if (desk == MAP_FAILED)
		machine_fail("mmap: %s", strerror(errno));
	for (unsigned int i = 0; i < subscribers; i++) {
		const pid_t pid = fork();

		if (pid < 0)
			machine_fail("fork: %s", strerror(errno));
		if (pid == 0)
			many_main(desk);
	}
	many_await(&desk->ready, subscribers);
	from = now_us();
	atomic_store(&desk->start, true);
	many_await(&desk->joined, subscribers);
	printf("{\"value\": %.1f}\n", now_us() - from);
	atomic_store(&desk->start, false);
	for (unsigned int i = 0; i < subscribers; i++)
		wait(NULL);
	close(orders);
	waitpid(child, NULL, 0);
}

static unsigned int number(const char *text, unsigned int least, unsigned int most)
{
	char *end;
	const unsigned long value = strtoul(text, &end, 10);

	if (*end || end == text || value < least || value > most)
		machine_fail("found %s, expected a number from %u to %u", text, least, most);
	return (unsigned int)value;
}

int main(int argc, char **argv)
{
	const bool other = argc == 4 && strcmp(argv[1], "other") == 0;

	if (other || (argc == 4 && strcmp(argv[1], "rejoin") == 0))
		rejoin(number(argv[2], 2, TOPICS_MAX), number(argv[3], 1, 1000), other);
	else if (argc == 4 && strcmp(argv[1], "many") == 0)
		many(number(argv[2], 2, TOPICS_MAX), number(argv[3], 1, 1000));
	else
		machine_fail("expected rejoin or other TOPICS ROUNDS, or many TOPICS SUBSCRIBERS");
	return 0;
}
