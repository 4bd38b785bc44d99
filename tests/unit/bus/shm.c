/* SPDX-License-Identifier: Apache-2.0 */
/* The socket of the shm fabric, attacked from both ends: wrong frames, floods, silence, strangers,
 * too few descriptors. Who did it is refused or dropped with words; nobody else feels it, and
 * nothing is left behind. */
#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <malloc.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "bus/peers.h"
#include "bus/shm/shm.h"
#include "bus/shm/shm_frame.h"
#include "bus/shm/shm_location.h"
#include "tests/support/random.h"
#include "tickbus/error.h"

#define DEADLINE_MS  20000
#define REGION_BYTES 8192
#define CROWD        1000
#define KINDS        6 /* of frames; those from 1 to 4 are known */
#define LINGER_S     50
#define SOMEONE      65421 /* a user that no other test is */

static char folder[64];
static uint64_t state;

static struct host {
	struct listener *listener;
	struct memory memory;
	struct exposure *exposure;
	struct peer *last;
	unsigned int hellos, messages, gones, logged;
	enum fabric_log kind;
	char log[512];
} host;

static struct guest {
	struct link *link;
	struct remote *remote;
	unsigned int welcomes, messages, gones;
	int code, opened;
	char why[256];
} guest;

static uint64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static unsigned int descriptors(void)
{
	DIR *list = opendir("/proc/self/fd");
	unsigned int count = 0;

	while (list && readdir(list))
		count++;
	if (list)
		closedir(list);
	return count;
}

static int on_hello(void *user, struct peer *peer, const void *hello, size_t bytes, void *welcome,
		    size_t *welcome_bytes, struct exposure **given,
		    char reason[FABRIC_REASON_BYTES])
{
	(void)user;
	(void)hello;
	(void)reason;
	cr_assert(bytes >= 1 && bytes <= FABRIC_MESSAGE_BYTES);
	memset(welcome, 'w', 8);
	*welcome_bytes = 8;
	*given = host.exposure;
	host.last = peer;
	host.hellos++;
	return 0;
}

static void on_message(void *user, struct peer *peer, const void *message, size_t bytes)
{
	(void)user;
	cr_assert(bytes >= 1 && bytes <= FABRIC_MESSAGE_BYTES);
	host.messages++;
	if (bytes == 5 && memcmp(message, "well?", 5) == 0)
		cr_assert_eq(shm_send(peer, "well!", 5, NULL), 0, "%s", tb_error());
}

static void on_gone(void *user, struct peer *peer, const char *why)
{
	(void)user;
	(void)peer;
	(void)why;
	host.gones++;
}

static void on_log(void *user, enum fabric_log kind, const char *words)
{
	(void)user;
	host.logged++;
	host.kind = kind;
	snprintf(host.log, sizeof(host.log), "%s", words);
}

static const struct listener_calls host_calls = {
	.hello = on_hello, .message = on_message, .gone = on_gone, .log = on_log
};

static void on_welcome(void *user, const void *welcome, size_t bytes)
{
	(void)user;
	(void)welcome;
	cr_assert(bytes >= 1 && bytes <= FABRIC_MESSAGE_BYTES);
	cr_assert_eq(guest.welcomes++, 0);
	guest.opened =
		shm_remote_open(guest.link, (struct fabric_key){ 0 }, REGION_BYTES, &guest.remote);
}

static void on_link_message(void *user, const void *message, size_t bytes)
{
	(void)user;
	(void)message;
	cr_assert(bytes >= 1 && bytes <= FABRIC_MESSAGE_BYTES);
	cr_assert_eq(guest.welcomes, 1);
	guest.messages++;
}

static void on_link_gone(void *user, int code, const char *why)
{
	(void)user;
	cr_assert_eq(guest.gones++, 0);
	guest.code = code;
	snprintf(guest.why, sizeof(guest.why), "%s", why);
}

static const struct link_calls guest_calls = { .welcome = on_welcome,
					       .message = on_link_message,
					       .gone = on_link_gone };

static void host_open(unsigned int peers_max, struct fabric_access access)
{
	const struct fabric_listen how = { .address = "test",
					   .access = access,
					   .peers_max = peers_max };

	cr_assert_eq(memory_create(&host.memory, "test", REGION_BYTES), 0, "%s", tb_error());
	cr_assert_eq(shm_listen(&host.listener, &how, &host_calls, NULL), 0, "%s", tb_error());
	cr_assert_eq(shm_expose(host.listener, &host.memory, 0, &host.exposure), 0);
}

static void host_close(void)
{
	shm_withdraw(host.exposure);
	shm_listener_close(host.listener);
	memory_free(&host.memory);
	host = (struct host){ 0 };
}

static void guest_leave(void)
{
	if (guest.link)
		shm_link_break(guest.link);
	shm_remote_close(guest.remote);
	shm_link_close(guest.link);
	guest = (struct guest){ 0 };
}

static void turn(void)
{
	struct pollfd ready[2];
	nfds_t count = 0;
	int worked = 0;

	if (host.listener) {
		worked += shm_listener_poll(host.listener);
		ready[count++] =
			(struct pollfd){ .fd = shm_listener_fd(host.listener), .events = POLLIN };
	}
	if (guest.link && shm_link_state(guest.link) != LINK_GONE) {
		worked += shm_link_poll(guest.link);
		ready[count++] = (struct pollfd){ .fd = shm_link_fd(guest.link), .events = POLLIN };
	}
	if (worked == 0)
		poll(ready, count, 20);
}

#define UNTIL(condition)                                                                           \
	do {                                                                                       \
		const uint64_t late_ms = now_ms() + DEADLINE_MS;                                   \
		while (!(condition)) {                                                             \
			cr_assert_lt(now_ms(), late_ms, "waited for " #condition);                 \
			turn();                                                                    \
		}                                                                                  \
	} while (0)

static void guest_enter(void)
{
	cr_assert_eq(shm_connect(&guest.link, "test", "hello", 5, &guest_calls, NULL), 0, "%s",
		     tb_error());
	UNTIL(guest.welcomes || guest.gones);
	cr_assert_eq(guest.gones, 0, "%s", guest.why);
	cr_assert_eq(guest.opened, 0, "%s", tb_error());
}

/* Who did nothing wrong is served as ever. */
static void expect_guest_well(void)
{
	const unsigned int before = guest.messages;

	cr_assert_eq(shm_link_send(guest.link, "well?", 5), 0, "%s", tb_error());
	UNTIL(guest.messages == before + 1);
	cr_assert_eq(guest.gones, 0, "%s", guest.why);
}

static struct sockaddr_un socket_address(void)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };

	snprintf(at.sun_path, sizeof(at.sun_path), "%s/test.sock", folder);
	return at;
}

/* A connection that our code knows nothing of. */
static int stranger(void)
{
	const struct sockaddr_un at = socket_address();
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	cr_assert_geq(fd, 0);
	cr_assert_eq(connect(fd, (const struct sockaddr *)&at, sizeof(at)), 0, "%s",
		     strerror(errno));
	return fd;
}

/* Bytes as one frame, with copies of a descriptor; whether they could be sent. */
static bool put_with(int fd, const void *bytes, size_t length, int given, unsigned int copies)
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int) * 253)] = { 0 };
	struct iovec part = { (void *)(uintptr_t)bytes, length };
	struct msghdr header = { .msg_iov = &part, .msg_iovlen = 1 };

	if (copies > 0) {
		struct cmsghdr *c;

		header.msg_control = control;
		header.msg_controllen = CMSG_SPACE(sizeof(int) * copies);
		c = CMSG_FIRSTHDR(&header);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int) * copies);
		for (unsigned int i = 0; i < copies; i++)
			memcpy(CMSG_DATA(c) + i * sizeof(int), &given, sizeof(int));
	}
	return sendmsg(fd, &header, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0;
}

static bool put(int fd, const void *bytes, size_t length, unsigned int copies)
{
	return put_with(fd, bytes, length, fd, copies);
}

static void put_frame(int fd, uint32_t kind, size_t body)
{
	uint8_t bytes[4 + 2000];

	memcpy(bytes, &kind, 4);
	memset(bytes + 4, 'x', body);
	cr_assert(put(fd, bytes, 4 + body, 0), "%s", strerror(errno));
}

/* The next frame for a stranger; its kind, 0 when the connection is over. */
static uint32_t take(int fd, char *body, size_t room)
{
	uint8_t bytes[4 + FABRIC_MESSAGE_BYTES];
	uint32_t kind = 0;
	ssize_t got;

	do /* a connection that was reset says so once, before what was sent */
		got = recv(fd, bytes, sizeof(bytes), 0);
	while (got < 0 && (errno == ECONNRESET || errno == EINTR));
	if (got < 4)
		return 0;
	memcpy(&kind, bytes, 4);
	got -= 4;
	cr_assert_lt((size_t)got, room);
	memcpy(body, bytes + 4, (size_t)got);
	body[got] = '\0';
	return kind;
}

static void enter(void)
{
	snprintf(folder, sizeof(folder), "/tmp/tickbus-shm-XXXXXX");
	cr_assert_not_null(mkdtemp(folder));
	setenv("TICKBUS_RUNTIME_DIR", folder, 1);
	state = random_seed();
}

static void leave(void)
{
	const struct sockaddr_un at = socket_address();
	char lock[128];

	guest_leave();
	host_close();
	snprintf(lock, sizeof(lock), "%s/test.lock", folder);
	unlink(at.sun_path);
	unlink(lock);
	rmdir(folder);
}

TestSuite(shm, .init = enter, .fini = leave, .timeout = 60);

static const struct fabric_access nobody_else;

/* -- a publisher among strangers ----------------------------------------------------------------
 */

Test(shm, a_wrong_frame_ends_its_connection_and_is_told)
{
	static const struct {
		unsigned int hellos; /* before it */
		uint32_t kind;
		size_t body;
		const char *words;
	} wrong[] = {
		{ 0, 0, 8, "it sent a frame of another kind, expected a hello" },
		{ 0, SHM_WELCOME, 8, "it sent a frame of another kind, expected a hello" },
		{ 0, SHM_REFUSAL, 8, "it sent a frame of another kind, expected a hello" },
		{ 0, SHM_MESSAGE, 8, "it sent a frame of another kind, expected a hello" },
		{ 0, UINT32_MAX, 8, "it sent a frame of another kind, expected a hello" },
		{ 0, SHM_HELLO, 0, "it sent a frame of a wrong size, expected a hello" },
		{ 0, SHM_HELLO, 1025, "it sent a frame of a wrong size, expected a hello" },
		{ 1, SHM_HELLO, 8, "it sent a frame of another kind, expected a control message" },
		{ 1, SHM_WELCOME, 8,
		  "it sent a frame of another kind, expected a control message" },
		{ 1, SHM_MESSAGE, 0,
		  "it sent a frame of a wrong size, expected a control message" },
		{ 1, SHM_MESSAGE, 1025,
		  "it sent a frame of a wrong size, expected a control message" },
		{ 1, SHM_MESSAGE, 2000,
		  "it sent a frame of a wrong size, expected a control message" },
	};
	char words[256], body[FABRIC_MESSAGE_BYTES + 1];

	host_open(8, nobody_else);
	guest_enter();
	for (unsigned int i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		int fd = stranger();

		if (wrong[i].hellos)
			put_frame(fd, SHM_HELLO, 8);
		put_frame(fd, wrong[i].kind, wrong[i].body);
		UNTIL(host.logged == i + 1);
		snprintf(words, sizeof(words), "pid %d of user %u was dropped: %s", (int)getpid(),
			 (unsigned int)geteuid(), wrong[i].words);
		cr_expect_str_eq(host.log, words);
		cr_expect_eq(host.kind, FABRIC_LOG_DROPPED);
		if (wrong[i].hellos)
			cr_expect_eq(take(fd, body, sizeof(body)), SHM_WELCOME);
		cr_expect_eq(take(fd, body, sizeof(body)), 0);
		close(fd);
	}
	cr_expect_eq(host.gones, host.hellos - 1, "gone is told for each that was taken");
	expect_guest_well();
}

/* What a program does that has read enough: nobody is to look for what it did wrong. */
Test(shm, who_closed_before_it_was_sent_something_is_gone_and_not_dropped)
{
	char body[FABRIC_MESSAGE_BYTES + 1];

	host_open(8, nobody_else);
	guest_enter();
	for (unsigned int i = 0; i < 4; i++) {
		const bool stays = i % 2;
		int fd = stranger();

		put_frame(fd, SHM_HELLO, 8);
		UNTIL(host.hellos == i + 2);
		if (i < 2)
			cr_expect_eq(take(fd, body, sizeof(body)), SHM_WELCOME);
		put_frame(fd, SHM_MESSAGE, 8);
		cr_assert_eq(stays ? shutdown(fd, SHUT_RD) : close(fd), 0);
		for (int sends = 0; sends < 2; sends++)
			cr_expect_eq(shm_send(host.last, "farewell", 8, host.exposure), 0, "%s",
				     tb_error());
		UNTIL(host.gones == i + 1);
		if (stays)
			close(fd);
	}
	expect_guest_well();
	cr_expect_eq(host.messages, 4 + 1, "what they sent before was taken");
	cr_expect_eq(host.logged, 0, "%s", host.log);
}

/* The welcome finds nobody. */
Test(shm, who_closed_behind_its_hello_is_gone_and_not_dropped)
{
	int fd;

	host_open(8, nobody_else);
	fd = stranger();
	put_frame(fd, SHM_HELLO, 8);
	close(fd);
	UNTIL(host.gones == 1);
	cr_expect_eq(host.hellos, 1);
	cr_expect_eq(host.logged, 0, "%s", host.log);
}

/* A frame of any length and kind, with some descriptors. */
static bool put_random(int fd)
{
	uint8_t bytes[1500];
	const uint32_t kind = random_below(&state, 4) == 0 ? (uint32_t)random_below(&state, KINDS)
							   : (uint32_t)SHM_MESSAGE;
	size_t length = random_below(&state, random_below(&state, 2) ? 16 : sizeof(bytes));

	random_fill(&state, bytes, length);
	if (length >= 4 && random_below(&state, 16) != 0)
		memcpy(bytes, &kind, 4);
	return put(fd, bytes, length, (unsigned int)random_below(&state, 6));
}

Test(shm, random_frames_with_descriptors_harm_nobody_and_leave_nothing)
{
	int open[32] = { 0 };
	unsigned int before;

	host_open(128, nobody_else);
	guest_enter();
	before = descriptors();
	for (unsigned int round = 0; round < 4000; round++) {
		int *slot = &open[random_below(&state, 32)];

		if (*slot == 0) {
			*slot = stranger();
			if (random_below(&state, 2))
				put_frame(*slot, SHM_HELLO, 1 + random_below(&state, 1024));
		}
		for (size_t frames = random_below(&state, 12); frames > 0; frames--)
			put_random(*slot);
		if (random_below(&state, 2)) {
			close(*slot);
			*slot = 0;
		}
		shm_listener_poll(host.listener);
		if (round % 500 == 0) {
			guest_leave();
			guest_enter();
			expect_guest_well();
		}
	}
	for (size_t i = 0; i < 32; i++)
		if (open[i])
			close(open[i]);
	cr_assert(host.logged > 100 && host.hellos > 100 && host.messages > 100,
		  "%u logged, %u hellos, %u messages", host.logged, host.hellos, host.messages);
	UNTIL(host.gones == host.hellos - 1 && descriptors() == before);
}

Test(shm, who_connects_and_says_nothing_is_sent_away_in_words)
{
	char body[FABRIC_MESSAGE_BYTES + 1];
	int fds[30], greeted;

	host_open(64, nobody_else);
	guest_enter();
	greeted = stranger();
	put_frame(greeted, SHM_HELLO, 8);
	for (size_t i = 0; i < 30; i++)
		fds[i] = stranger();
	UNTIL(host.logged == 30);
	cr_expect(strstr(host.log, "was refused: it connected and sent no hello"), "%s", host.log);
	cr_expect_eq(host.kind, FABRIC_LOG_REFUSED);
	for (size_t i = 0; i < 30; i++) {
		cr_assert_eq(take(fds[i], body, sizeof(body)), SHM_REFUSAL);
		cr_expect_str_eq(body + 4, "it connected and sent no hello");
		cr_assert_eq(take(fds[i], body, sizeof(body)), 0);
		close(fds[i]);
	}
	cr_expect_eq(host.gones, 0, "silence after the hello is no fault");
	close(greeted);
	UNTIL(host.gones == 1);
	guest_leave();
	guest_enter();
	expect_guest_well();
}

/* A crowd that connects at once, half of it with a hello. Says how many were refused, then waits
 * until it may go. */
static void crowd(unsigned int count, int tell, int go)
{
	static int fds[CROWD];
	char body[FABRIC_MESSAGE_BYTES + 1];
	unsigned int refused = 0;

	for (unsigned int i = 0; i < count; i++) {
		fds[i] = stranger();
		if (i % 2)
			put(fds[i], "\1\0\0\0hello", 9, 0);
	}
	for (unsigned int i = 0; i < count; i++) {
		struct pollfd ready = { .fd = fds[i], .events = POLLIN };

		/* Those that are taken and were silent hear nothing for some time. */
		if (poll(&ready, 1, i % 2 ? DEADLINE_MS : 0) == 1)
			refused += take(fds[i], body, sizeof(body)) == SHM_REFUSAL;
	}
	if (write(tell, &refused, sizeof(refused)) < 0 || read(go, body, 1) < 0)
		_exit(1);
	_exit(0);
}

static pid_t crowd_begin(unsigned int count, int *told, int *go)
{
	int tell[2], wait[2];
	pid_t child;

	cr_assert(pipe2(tell, O_NONBLOCK) == 0 && pipe(wait) == 0);
	child = fork();
	if (child == 0) {
		close(wait[1]);
		crowd(count, tell[1], wait[0]);
	}
	close(tell[1]);
	close(wait[0]);
	*told = tell[0];
	*go = wait[1];
	return child;
}

static void crowd_end(pid_t child, int told, int go)
{
	int status;

	close(go);
	close(told);
	cr_assert_eq(waitpid(child, &status, 0), child);
	cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %x", status);
}

Test(shm, a_thousand_connections_at_once_cost_what_was_agreed)
{
	const unsigned int places = 64;
	unsigned int refused = 0, before;
	size_t memory;
	int told, go;
	pid_t child;

	host_open(places, nobody_else);
	guest_enter();
	before = descriptors();
	memory = mallinfo2().uordblks;
	child = crowd_begin(CROWD, &told, &go);
	UNTIL(read(told, &refused, sizeof(refused)) == sizeof(refused));
	UNTIL(host.logged >= CROWD - (places - 1)); /* who was too late, who was silent */
	cr_expect(refused >= CROWD / 2 - places && refused <= CROWD, "%u refused", refused);
	cr_expect_lt(mallinfo2().uordblks, memory + places * 1024);
	expect_guest_well();
	crowd_end(child, told, go);
	UNTIL(host.gones == host.hellos - 1 && descriptors() == before);
	cr_expect_lt(mallinfo2().uordblks, memory + 2048); /* malloc caches seven freed peers */
	guest_leave();
	guest_enter();
	expect_guest_well();
}

Test(shm, without_descriptors_new_ones_are_refused_and_those_there_are_go_on)
{
	struct rlimit limit, little;
	unsigned int refused = 0;
	int told, go;
	pid_t child;

	host_open(256, nobody_else);
	guest_enter();
	child = crowd_begin(100, &told, &go);
	cr_assert_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
	little = limit;
	little.rlim_cur = descriptors() + 8;
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &little), 0);
	UNTIL(host.logged > 50);
	cr_expect_str_eq(host.log, "a connection was refused: no descriptor is left (see "
				   "ulimit -n)");
	cr_expect_eq(host.kind, FABRIC_LOG_REFUSED);
	expect_guest_well();
	UNTIL(read(told, &refused, sizeof(refused)) == sizeof(refused));
	cr_expect_geq(refused, 30);
	crowd_end(child, told, go);
	UNTIL(host.gones == host.hellos - 1);
	guest_leave();
	guest_enter();
	expect_guest_well();
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

/* What another thread does in the moment when the reserve is given up: there is nothing. */
Test(shm, where_not_even_the_reserve_is_left_connections_wait_and_nothing_spins)
{
	struct pollfd ready = { .events = POLLIN };
	struct rlimit limit, none;
	unsigned int refused = 0;
	int told, go;
	pid_t child;

	host_open(256, nobody_else);
	guest_enter();
	ready.fd = shm_listener_fd(host.listener);
	child = crowd_begin(20, &told, &go);
	cr_assert_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
	none = (struct rlimit){ .rlim_cur = 3, .rlim_max = limit.rlim_max };
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
	UNTIL(host.logged > 0);
	cr_expect_str_eq(host.log, "connections wait: no descriptor is left (see ulimit -n)");
	cr_expect_eq(host.kind, FABRIC_LOG_NEWS);
	UNTIL(poll(&ready, 1, 0) == 0);
	expect_guest_well();
	cr_expect_eq(host.hellos, 1);
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
	UNTIL(host.hellos == 1 + 10);
	UNTIL(read(told, &refused, sizeof(refused)) == sizeof(refused));
	cr_expect_eq(refused, 0);
	crowd_end(child, told, go);
	UNTIL(host.gones == host.hellos - 1);
	expect_guest_well();
}

/* -- descriptors --------------------------------------------------------------------------------
 */

/* Our own socket, to have it as an older kernel has it. */
static int listening_socket(void)
{
	for (int fd = 3; fd < 1024; fd++) {
		int listens = 0, domain = 0;
		socklen_t length = sizeof(int);

		if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &length) == 0 && listens &&
		    getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &length) == 0 &&
		    domain == AF_UNIX)
			return fd;
	}
	cr_assert_fail("nobody listens");
	return -1;
}

static void let_descriptors_in(void)
{
	const int yes = 1;

	if (setsockopt(listening_socket(), SOL_SOCKET, SO_PASSRIGHTS, &yes, sizeof(yes)) < 0)
		cr_assert_eq(errno, ENOPROTOOPT); /* they come in anyway */
}

Test(shm, no_descriptor_can_be_sent_to_a_publisher)
{
	socklen_t length = sizeof(int);
	int fd, may;

	host_open(4, nobody_else);
	if (getsockopt(listening_socket(), SOL_SOCKET, SO_PASSRIGHTS, &may, &length) < 0)
		cr_skip("this kernel lets everyone send them (Linux before 6.16)");
	fd = stranger();
	cr_expect_not(put(fd, "\1\0\0\0hello", 9, 1));
	cr_expect_eq(errno, EPERM);
	turn();
	cr_expect_not(put(fd, "\1\0\0\0hello", 9, 1));
	cr_expect_eq(errno, EPERM);
	cr_expect(put(fd, "\1\0\0\0hello", 9, 0));
	UNTIL(host.hellos == 1);
	close(fd);
	guest_enter(); /* they go the other way as ever */
	expect_guest_well();
}

/* A socket whose close waits for LINGER_S, when it is the last: nobody reads what it has to send.
 */
static int lingering(int *other)
{
	const struct linger linger = { .l_onoff = 1, .l_linger = LINGER_S };
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t length = sizeof(at);
	const int listening = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	static const char bytes[65536];

	if (bind(listening, (struct sockaddr *)&at, sizeof(at)) < 0 || listen(listening, 1) < 0 ||
	    getsockname(listening, (struct sockaddr *)&at, &length) < 0 ||
	    connect(fd, (struct sockaddr *)&at, sizeof(at)) < 0)
		cr_skip("no TCP here: %s", strerror(errno));
	*other = accept4(listening, NULL, NULL, SOCK_CLOEXEC);
	close(listening);
	while (send(fd, bytes, sizeof(bytes), MSG_DONTWAIT) > 0)
		;
	cr_assert_eq(setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger)), 0);
	return fd;
}

/* Sends it so that ours is the last, with `others` before it in the same frame, and behind a frame
 * that ends the connection or not. */
static void send_lingering(unsigned int others, bool behind)
{
	const unsigned int before = host.logged;
	const uint64_t begun_ms = now_ms();
	int fd = stranger(), other, given = lingering(&other);

	if (behind) {
		put_frame(fd, SHM_WELCOME, 8); /* with this it is dropped */
		cr_assert(put(fd, "", 0, 0));
	}
	if (others > 0)
		cr_assert(put(fd, "\4\0\0\0all", 7, others));
	cr_assert(put_with(fd, "\4\0\0\0this", 8, given, 1));
	close(given);
	UNTIL(host.logged > before);
	cr_expect_lt(now_ms() - begun_ms, LINGER_S * 1000 / 2, "its close was waited for");
	close(fd);
	close(other);
}

Test(shm, where_descriptors_come_in_closing_them_waits_for_nobody)
{
	unsigned int before;

	host_open(8, nobody_else);
	let_descriptors_in();
	guest_enter();
	before = descriptors();
	send_lingering(0, false);
	send_lingering(253, false);
	send_lingering(0, true);
	send_lingering(253, true);
	cr_expect_eq(descriptors(), before);
	expect_guest_well();
}

/* A frame with more descriptors than one: all but the last are others. */
Test(shm, every_descriptor_of_a_frame_is_closed_without_waiting)
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int) * 20)] = { 0 };
	struct iovec part = { (void *)(uintptr_t) "\4\0\0\0all", 7 };
	struct msghdr header = { .msg_iov = &part,
				 .msg_iovlen = 1,
				 .msg_control = control,
				 .msg_controllen = sizeof(control) };
	struct cmsghdr *c = CMSG_FIRSTHDR(&header);
	const uint64_t begun_ms = now_ms();
	int fd, given[20], other[20];

	host_open(8, nobody_else);
	let_descriptors_in();
	fd = stranger();
	for (unsigned int i = 0; i < 20; i++)
		given[i] = lingering(&other[i]);
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(given));
	memcpy(CMSG_DATA(c), given, sizeof(given));
	cr_assert_geq(sendmsg(fd, &header, 0), 0, "%s", strerror(errno));
	for (unsigned int i = 0; i < 20; i++)
		close(given[i]);
	UNTIL(host.logged == 1);
	cr_expect_lt(now_ms() - begun_ms, LINGER_S * 1000 / 2, "a close was waited for");
	for (unsigned int i = 0; i < 20; i++)
		close(other[i]);
	close(fd);
}

/* Each counts against the limit of the publisher's user until it is received. */
Test(shm, who_does_not_read_what_it_was_given_is_given_no_more)
{
	char body[FABRIC_MESSAGE_BYTES + 1];
	unsigned int sent = 0;
	int fd;

	host_open(4, nobody_else);
	fd = stranger();
	put_frame(fd, SHM_HELLO, 8);
	UNTIL(host.hellos == 1);
	while (sent < 1000 && shm_send(host.last, "grant", 5, host.exposure) == 0)
		sent++;
	cr_expect(sent >= FABRIC_UNANSWERED && sent <= 2 * FABRIC_UNANSWERED, "%u", sent);
	cr_expect_eq(shm_send(host.last, "grant", 5, host.exposure), -EAGAIN);
	cr_expect_eq(shm_send(host.last, "wake", 4, NULL), 0, "what has none with it is sent");
	cr_expect_eq(take(fd, body, sizeof(body)), SHM_WELCOME);
	for (unsigned int i = 0; i <= sent; i++)
		cr_expect_eq(take(fd, body, sizeof(body)), SHM_MESSAGE);
	for (unsigned int i = 0; i < 1000; i++) { /* an honest one */
		cr_assert_eq(shm_send(host.last, "grant", 5, host.exposure), 0, "%s", tb_error());
		cr_assert_eq(take(fd, body, sizeof(body)), SHM_MESSAGE);
	}
	close(fd);
}

/* The limit is that of a user without privileges: a child's, whose hello cannot be answered with
 * the bus page. */
Test(shm, too_many_descriptors_on_their_way_are_told_as_that)
{
	struct rlimit limit;
	unsigned int count = 0;

	if (geteuid() != 0 || chown(folder, SOMEONE, SOMEONE) < 0 ||
	    setresgid(SOMEONE, SOMEONE, SOMEONE) < 0 || setresuid(SOMEONE, SOMEONE, SOMEONE) < 0)
		cr_skip("only root can become a user that has none on their way yet");
	cr_assert_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
	limit.rlim_cur = descriptors() + 40;
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
	host_open(256, nobody_else);
	while (host.logged == 0) {
		const int fd = stranger();
		const unsigned int hellos = host.hellos;

		cr_assert_lt(++count, 40);
		put_frame(fd, SHM_HELLO, 8);
		UNTIL(host.hellos > hellos);
		while (host.logged == 0 && shm_send(host.last, "grant", 5, host.exposure) == 0)
			;
	}
	cr_expect(strstr(host.log, "was dropped: too many descriptors are in flight to "
				   "subscribers that do not read (see ulimit -n)"),
		  "%s", host.log);
	cr_expect_eq(host.kind, FABRIC_LOG_DROPPED);
	cr_assert_eq(shm_connect(&guest.link, "test", "hello", 5, &guest_calls, NULL), 0, "%s",
		     tb_error());
	UNTIL(guest.gones == 1);
	cr_expect_eq(guest.code, EAGAIN); /* who waits for its publisher tries again */
	cr_expect_str_eq(guest.why, "too many descriptors are in flight to subscribers that do "
				    "not read (see ulimit -n)");
}

/* A child that only inherited the descriptors keeps connections open that are closed here. */
Test(shm, a_dropped_peer_is_no_more_though_a_child_holds_its_descriptor)
{
	int pipes[2], fd, status;
	pid_t child;
	char go;

	host_open(8, nobody_else);
	fd = stranger();
	put_frame(fd, SHM_HELLO, 8);
	UNTIL(host.hellos == 1);
	cr_assert_eq(pipe(pipes), 0);
	child = fork();
	if (child == 0) {
		close(pipes[1]);
		_exit(read(pipes[0], &go, 1) == 0 ? 0 : 1);
	}
	close(pipes[0]);
	peers_drop(host.last, "the test says so");
	cr_expect_eq(host.kind, FABRIC_LOG_DROPPED);
	for (unsigned int i = 0; i < 20; i++) {
		put_frame(fd, SHM_MESSAGE, 8);
		turn();
	}
	cr_expect_eq(host.messages + host.gones, 0);
	guest_enter();
	expect_guest_well();
	close(pipes[1]);
	close(fd);
	cr_assert_eq(waitpid(child, &status, 0), child);
	cr_assert_eq(status, 0);
}

/* -- permission ---------------------------------------------------------------------------------
 */

/* Connects as someone else: 0, or what the connection was refused with; words to words[1]. */
static int as_someone(uid_t user, gid_t group, gid_t more)
{
	const uint64_t late_ms = now_ms() + DEADLINE_MS; /* no child outlives its test for long */
	int status;
	const pid_t child = fork();

	if (child == 0) {
		char words[128];
		int result;

		host = (struct host){ 0 }; /* the parent's */
		snprintf(words, sizeof(words),
			 "user %u has no permission to read the bus at shm:test",
			 (unsigned int)user);
		if (setgroups(more ? 1 : 0, &more) < 0 || setresgid(group, group, group) < 0 ||
		    setresuid(user, user, user) < 0)
			_exit(200);
		result = shm_connect(&guest.link, "test", "hello", 5, &guest_calls, NULL);
		while (result == 0 && !guest.welcomes && !guest.gones && now_ms() < late_ms)
			turn();
		if (guest.gones && strcmp(guest.why, words) != 0)
			_exit(201);
		snprintf(words, sizeof(words),
			 "address shm:test: no permission to connect (%s/test.sock)", folder);
		if (result < 0 && strcmp(tb_error(), words) != 0)
			_exit(201);
		if (result == 0 && !guest.welcomes && !guest.gones)
			_exit(ETIMEDOUT);
		_exit(result < 0 ? -result + 100 : guest.gones ? guest.code : guest.opened);
	}
	while (waitpid(child, &status, WNOHANG) == 0)
		turn();
	cr_assert(WIFEXITED(status), "status %x", status);
	cr_assert_neq(WEXITSTATUS(status), 200, "another user cannot be had");
	cr_assert_neq(WEXITSTATUS(status), 201, "other words");
	return WEXITSTATUS(status);
}

static bool may_be_others(void)
{
	return geteuid() == 0 && chmod(folder, 0755) == 0;
}

Test(shm, where_nobody_else_is_named_nobody_else_connects)
{
	if (!may_be_others())
		cr_skip("only root can try to connect as others");
	host_open(8, nobody_else);
	cr_expect_eq(as_someone(65533, 65533, 0), 100 + EACCES, "the socket's own mode refuses");
	cr_expect_eq(as_someone(0, 0, 0), 0);
	cr_expect_eq(host.hellos, 1);
}

Test(shm, users_and_groups_that_are_named_connect_and_no_others)
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

Test(shm, that_others_are_named_and_cannot_look_into_the_folder_is_told)
{
	const uid_t users[] = { 65533 };
	const struct fabric_access access = { users, 1, NULL, 0 };

	cr_assert_eq(chmod(folder, 0700), 0);
	host_open(8, access);
	cr_expect_eq(host.logged, 1);
	cr_expect_eq(host.kind, FABRIC_LOG_NEWS);
	cr_expect(strstr(host.log, "but other users cannot enter /"), "%s", host.log);
	host_close();
	host_open(8, nobody_else);
	cr_expect_eq(host.logged, 0, "%s", host.log);
	host_close();
	cr_assert_eq(chmod(folder, 0711), 0);
	host_open(8, access);
	cr_expect_eq(host.logged, 0, "%s", host.log);
}

/* All silent: they would have their places for some time. */
Test(shm, who_has_no_permission_cannot_keep_the_places_of_others)
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

/* -- a publisher that lies ----------------------------------------------------------------------
 */

static int liar_listen(void)
{
	const struct sockaddr_un at = socket_address();
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	cr_assert_eq(bind(fd, (const struct sockaddr *)&at, sizeof(at)), 0, "%s", strerror(errno));
	cr_assert_eq(listen(fd, 8), 0);
	return fd;
}

static int liar_accept(int listening)
{
	int fd;

	cr_assert_eq(shm_connect(&guest.link, "test", "hello", 5, &guest_calls, NULL), 0, "%s",
		     tb_error());
	fd = accept4(listening, NULL, NULL, SOCK_CLOEXEC);
	cr_assert_geq(fd, 0);
	return fd;
}

Test(shm, a_wrong_frame_from_a_publisher_ends_the_link_with_words)
{
	static const struct {
		bool welcome; /* before it */
		const char *bytes;
		size_t length;
		int code;
		const char *why;
	} wrong[] = {
#define UNEXPECTED "the publisher sent an unexpected frame"
#define SIZE       "the publisher sent a frame of a wrong size"
		{ false, "\4\0\0\0message", 11, EPROTO, UNEXPECTED },
		{ false, "\1\0\0\0hello", 9, EPROTO, UNEXPECTED },
		{ false, "\0\0\0\0hello", 9, EPROTO, UNEXPECTED },
		{ true, "\2\0\0\0welcome", 11, EPROTO, UNEXPECTED },
		{ true, "\xff\xff\xff\xff!", 5, EPROTO, UNEXPECTED },
		{ false, "\2\0\0\0", 4, EPROTO, SIZE },
		{ false, "\2", 1, EPROTO, SIZE },
		{ true, "\4\0\0", 3, EPROTO, SIZE },
		{ false, "\3\0\0\0\1\0", 6, EPROTO, "refused without a valid reason" },
		{ false, "\3\0\0\0\15\0\0\0no~\n\xff", 13, EACCES, "no~??" },
		{ true, "\3\0\0\0\15\0\0\0enough", 14, EACCES, "enough" },
		{ false, "\3\0\0\0\0\0\0\0nothing", 15, EPROTO, "nothing" },
		{ false, "\3\0\0\0\xff\xff\xff\xff!", 9, EPROTO, "!" },
	};
	int listening = liar_listen();
	uint8_t longest[4 + FABRIC_MESSAGE_BYTES + 1] = { SHM_REFUSAL, 0, 0, 0, EACCES };

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		int fd = liar_accept(listening);

		if (wrong[i].welcome)
			put_frame(fd, SHM_WELCOME, 8);
		cr_assert(put(fd, wrong[i].bytes, wrong[i].length, 0));
		UNTIL(guest.gones == 1);
		cr_expect_eq(guest.code, wrong[i].code, "%zu", i);
		cr_expect_str_eq(guest.why, wrong[i].why);
		close(fd);
		guest_leave();
	}
	/* A reason longer than any, and a frame longer than any. */
	for (size_t length = 4 + 4 + FABRIC_REASON_BYTES; length <= sizeof(longest); length++) {
		int fd = liar_accept(listening);

		memset(longest + 8, 'r', sizeof(longest) - 8);
		cr_assert(put(fd, longest, length, 0));
		UNTIL(guest.gones == 1);
		if (length == 4 + 4 + FABRIC_REASON_BYTES)
			cr_expect_eq(strlen(guest.why), FABRIC_REASON_BYTES);
		else if (length < sizeof(longest))
			cr_expect_str_eq(guest.why, "refused without a valid reason");
		else
			cr_expect_str_eq(guest.why, SIZE);
		close(fd);
		guest_leave();
	}
	close(listening);
}

Test(shm, random_frames_from_a_publisher_harm_nothing_and_leave_nothing)
{
	int listening = liar_listen();
	const unsigned int before = descriptors();
	unsigned int welcomed = 0, messages = 0;

	for (unsigned int round = 0; round < 3000; round++) {
		int fd = liar_accept(listening);

		if (random_below(&state, 2))
			put_frame(fd, SHM_WELCOME, 1 + random_below(&state, 1024));
		for (size_t frames = random_below(&state, 12); frames > 0; frames--) {
			put_random(fd);
			shm_link_poll(guest.link);
		}
		for (size_t frames = random_below(&state, 4); frames > 0; frames--)
			put(fd, "", 0, 3); /* descriptors with nothing at all */
		cr_assert_leq(descriptors(), before + 2 + 3 * 4, "kept what nobody asked for");
		close(fd);
		UNTIL(guest.gones == 1);
		cr_assert(guest.opened < 0 || guest.welcomes == 0, "no memory came with it");
		welcomed += guest.welcomes;
		messages += guest.messages;
		guest_leave();
		cr_assert_eq(descriptors(), before, "round %u", round);
	}
	cr_assert(welcomed > 100 && messages > 100, "%u welcomes, %u messages", welcomed, messages);
	close(listening);
}

/* -- places -------------------------------------------------------------------------------------
 */

static void expect_no_listening(const char *name, int code, const char *words)
{
	const struct fabric_listen how = { .address = name, .peers_max = 1 };
	struct listener *listener = (struct listener *)&host;

	cr_expect_eq(shm_listen(&listener, &how, &host_calls, NULL), -code, "%s", name);
	cr_expect_str_eq(tb_error(), words);
	cr_expect_null(listener);
}

Test(shm, a_name_that_is_none_is_refused_in_words)
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

Test(shm, a_folder_that_will_not_do_is_named)
{
	char words[512], path[256];

	setenv("TICKBUS_RUNTIME_DIR", "/nonexistent/folder", 1);
	expect_no_listening("test", ENOENT,
			    "address shm:test: cannot create a socket in /nonexistent/folder: No "
			    "such file or directory; set TICKBUS_RUNTIME_DIR to a folder of yours");
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

Test(shm, what_a_killed_publisher_left_is_replaced_and_all_is_removed_at_the_end)
{
	const struct sockaddr_un at = socket_address();
	char lock[128], words[256];
	int left = liar_listen();

	close(left); /* its socket stays, and answers nobody */
	snprintf(lock, sizeof(lock), "%s/test.lock", folder);
	close(open(lock, O_RDWR | O_CREAT, 0600));
	cr_expect_eq(shm_connect(&guest.link, "test", "hello", 5, &guest_calls, NULL),
		     -ECONNREFUSED);
	snprintf(words, sizeof(words), "address shm:test: nobody listens there (%s)", at.sun_path);
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
		 "address shm:test: nobody listens there (no test.sock in %s)", folder);
	cr_expect_str_eq(tb_error(), words);
}

Test(shm, who_lost_its_lock_leaves_the_socket_and_the_lock_of_the_next)
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

Test(shm, an_address_in_use_is_told_with_its_process_and_left_alone)
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

Test(shm, a_publisher_that_lost_its_lock_is_not_replaced_while_it_listens)
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
Test(shm, a_stranger_that_listens_at_the_path_is_not_replaced)
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
		host_open(1, nobody_else); /* nobody listens any more */
		host_close();
	}
}

/* Tries to listen as SOMEONE, who may write into the folder: 0, or what it failed with, in these
 * words; then it is not said whether somebody listens. */
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
	cr_assert_neq(WEXITSTATUS(status), 200, "another user cannot be had");
	cr_assert_neq(WEXITSTATUS(status), 201, "other words");
	return WEXITSTATUS(status);
}

/* Whoever is refused by it cannot know whether it is listened at. */
Test(shm, a_socket_that_nobody_else_may_connect_to_is_not_replaced_by_others)
{
	const struct sockaddr_un at = socket_address();
	char lock[128], words[300];
	ino_t socket;

	if (!may_be_others() || chmod(folder, 0777) < 0)
		cr_skip("only root can try to listen as others");
	snprintf(lock, sizeof(lock), "%s/test.lock", folder);
	snprintf(words, sizeof(words),
		 "address shm:test: %s is a socket of user 0 that user %u has no permission to "
		 "connect to: a process may listen there; if no process does, remove it",
		 at.sun_path, SOMEONE);
	host_open(4, nobody_else);
	socket = inode(at.sun_path);
	cr_assert_eq(unlink(lock), 0);
	cr_expect_eq(listened_as_someone(words), EACCES);
	cr_expect_eq(inode(at.sun_path), socket);
	guest_enter();
	expect_guest_well();
	guest_leave();
}

/* Where its owner, or anybody, may connect, that nobody listens is known. */
Test(shm, a_socket_that_was_left_is_replaced_by_whoever_may_connect_to_it)
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
Test(shm, who_is_about_to_end_is_replaced)
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

/* Only what a publisher can have left is replaced; whoever finds something else leaves nothing. */
Test(shm, what_is_no_socket_stays_where_it_is)
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

Test(shm, a_lock_that_leads_elsewhere_is_not_followed)
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

/* -- folders of an ordinary user ----------------------------------------------------------------
 */

/* Cuts what is in the folder off. */
static const char *folder_of(struct shm_location *place)
{
	char *slash = strrchr(place->lock, '/');

	if (slash && strstr(slash, ".lock"))
		*slash = '\0';
	return place->lock;
}

/* Of a user with a session folder: 0 when each expectation holds, else its number. */
static int session_folders(void)
{
	char own[128], elsewhere[128];
	struct shm_location place;

	unsetenv("TICKBUS_RUNTIME_DIR");
	setenv("XDG_RUNTIME_DIR", folder, 1);
	snprintf(own, sizeof(own), "%s/tickbus", folder);
	snprintf(elsewhere, sizeof(elsewhere), "%s/elsewhere", folder);
	if (setresgid(65534, 65534, 65534) < 0 || setresuid(65534, 65534, 65534) < 0)
		return 1;
	if (access("/run/tickbus", W_OK) == 0)
		return 77;
	if (shm_location_connect("test", &place) != -ECONNREFUSED)
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

Test(shm, a_session_folder_is_used_while_nobody_else_can_write_there)
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
