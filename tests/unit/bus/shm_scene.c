/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/bus/shm_scene.h"

#include <dirent.h>
#include <errno.h>
#include <grp.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "tests/support/random.h"
#include "tickbus/error.h"

char folder[64];

uint64_t random_state;

struct host host;

struct guest guest;

uint64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* Where it is linked in: no user is trusted, so what arrives comes through a porter. */
bool __wrap_shm_trusts(uid_t listener);

bool __wrap_shm_trusts(uid_t listener)
{
	(void)listener;
	return false;
}

unsigned int descriptors(void)
{
	DIR *list = opendir("/proc/self/fd");
	unsigned int count = 0;

	while (list && readdir(list))
		count++;
	if (list)
		closedir(list);
	return count;
}

int on_hello(void *user, struct peer *peer, const void *hello, size_t bytes,
	     struct fabric_answer *answer)
{
	(void)user;
	(void)hello;
	cr_assert(bytes >= 1 && bytes <= FABRIC_MESSAGE_BYTES);
	if (host.challenging) {
		memset(answer->challenge, 'c', sizeof(answer->challenge));
		return 1;
	}
	if (host.sharing && shm_key(host.exposure, peer, &(struct fabric_key){ 0 }) < 0) {
		snprintf(answer->reason, sizeof(answer->reason), "%s", tb_error());
		return -EAGAIN;
	}
	memset(answer->welcome, 'w', 8);
	answer->welcome_bytes = 8;
	answer->given = host.exposure;
	host.last = peer;
	host.hellos++;
	return 0;
}

void on_message(void *user, struct peer *peer, const void *message, size_t bytes)
{
	(void)user;
	cr_assert(bytes >= 1 && bytes <= FABRIC_MESSAGE_BYTES);
	host.messages++;
	if (bytes == 5 && memcmp(message, "well?", 5) == 0)
		cr_assert_eq(shm_send(peer, "well!", 5, NULL), 0, "%s", tb_error());
}

void on_gone(void *user, struct peer *peer, const char *why)
{
	(void)user;
	(void)peer;
	(void)why;
	host.gones++;
}

void on_log(void *user, enum fabric_log kind, const char *words)
{
	(void)user;
	host.logged++;
	host.kind = kind;
	snprintf(host.log, sizeof(host.log), "%s", words);
}

const struct listener_calls host_calls = {
	.hello = on_hello, .message = on_message, .gone = on_gone, .log = on_log
};

void on_welcome(void *user, const void *welcome, size_t bytes)
{
	(void)user;
	(void)welcome;
	cr_assert(bytes >= 1 && bytes <= FABRIC_MESSAGE_BYTES);
	cr_assert_eq(guest.welcomes++, 0);
	guest.opened =
		shm_remote_open(guest.link, (struct fabric_key){ 0 }, REGION_BYTES, &guest.remote);
}

void on_link_message(void *user, const void *message, size_t bytes)
{
	(void)user;
	(void)message;
	cr_assert(bytes >= 1 && bytes <= FABRIC_MESSAGE_BYTES);
	cr_assert_eq(guest.welcomes, 1);
	guest.messages++;
}

void on_link_gone(void *user, int code, const char *why)
{
	(void)user;
	cr_assert_eq(guest.gones++, 0);
	guest.code = code;
	snprintf(guest.why, sizeof(guest.why), "%s", why);
}

const struct link_calls guest_calls = { .welcome = on_welcome,
					.message = on_link_message,
					.gone = on_link_gone };

void host_open(unsigned int peers_max, struct fabric_access access)
{
	const struct fabric_listen how = { .address = "test",
					   .access = access,
					   .peers_max = peers_max,
					   .peers_per_user = host.per_user };

	cr_assert_eq(memory_create(&host.memory, "test", REGION_BYTES), 0, "%s", tb_error());
	cr_assert_eq(shm_listen(&host.listener, &how, &host_calls, NULL), 0, "%s", tb_error());
	cr_assert_eq(shm_expose(host.listener, &host.memory, 0, &host.exposure), 0);
}

void host_close(void)
{
	shm_withdraw(host.exposure);
	shm_listener_close(host.listener);
	memory_free(&host.memory);
	host = (struct host){ 0 };
}

void guest_leave(void)
{
	if (guest.link)
		shm_link_break(guest.link);
	shm_remote_close(guest.remote);
	shm_link_close(guest.link);
	guest = (struct guest){ 0 };
}

void turn(void)
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

void guest_enter(void)
{
	cr_assert_eq(shm_connect(&guest.link, "test", "hello", 5, &guest_calls, NULL), 0, "%s",
		     tb_error());
	UNTIL(guest.welcomes || guest.gones);
	cr_assert_eq(guest.gones, 0, "%s", guest.why);
	cr_assert_eq(guest.opened, 0, "%s", tb_error());
}

void expect_guest_well(void)
{
	const unsigned int before = guest.messages;

	cr_assert_eq(shm_link_send(guest.link, "well?", 5), 0, "%s", tb_error());
	UNTIL(guest.messages == before + 1);
	cr_assert_eq(guest.gones, 0, "%s", guest.why);
}

struct sockaddr_un socket_address(void)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };

	snprintf(at.sun_path, sizeof(at.sun_path), "%s/test.sock", folder);
	return at;
}

int stranger(void)
{
	const struct sockaddr_un at = socket_address();
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	cr_assert_geq(fd, 0);
	cr_assert_eq(connect(fd, (const struct sockaddr *)&at, sizeof(at)), 0, "%s",
		     strerror(errno));
	return fd;
}

bool put_with(int fd, const void *bytes, size_t length, int given, unsigned int copies)
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

bool put(int fd, const void *bytes, size_t length, unsigned int copies)
{
	return put_with(fd, bytes, length, fd, copies);
}

void put_frame(int fd, uint32_t kind, size_t body)
{
	uint8_t bytes[4 + 2000];

	memcpy(bytes, &kind, 4);
	memset(bytes + 4, 'x', body);
	cr_assert(put(fd, bytes, 4 + body, 0), "%s", strerror(errno));
}

uint32_t take(int fd, char *body, size_t room)
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

void enter(void)
{
	snprintf(folder, sizeof(folder), "/tmp/tickbus-shm-XXXXXX");
	cr_assert_not_null(mkdtemp(folder));
	setenv("TICKBUS_RUNTIME_DIR", folder, 1);
	random_state = random_seed();
}

void leave(void)
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

const struct fabric_access nobody_else;

int as_someone(uid_t user, gid_t group, gid_t more)
{
	const uint64_t late_ms = now_ms() + deadline_ms(); /* no child outlives its test for long */
	int status;
	const pid_t child = fork();

	if (child == 0) {
		char words[192];
		int result;

		host = (struct host){ 0 }; /* the parent's */
		snprintf(words, sizeof(words),
			 "user %u has no permission to read the bus at %s/test.sock",
			 (unsigned int)user, folder);
		if (setgroups(more ? 1 : 0, &more) < 0 || setresgid(group, group, group) < 0 ||
		    setresuid(user, user, user) < 0)
			_exit(200);
		result = shm_connect(&guest.link, "test", "hello", 5, &guest_calls, NULL);
		while (result == 0 && !guest.welcomes && !guest.gones && now_ms() < late_ms)
			turn();
		if (guest.gones && strcmp(guest.why, words) != 0)
			_exit(201);
		snprintf(words, sizeof(words),
			 "address shm:test: no bus there for user %u (%s: user %u has no "
			 "permission to connect to test.sock of user 0)",
			 (unsigned int)user, folder, (unsigned int)user);
		if (result < 0 && strcmp(tb_error(), words) != 0)
			_exit(201);
		if (result == 0 && !guest.welcomes && !guest.gones)
			_exit(ETIMEDOUT);
		_exit(result < 0 ? -result + 100 : guest.gones ? guest.code : guest.opened);
	}
	while (waitpid(child, &status, WNOHANG) == 0)
		turn();
	cr_assert(WIFEXITED(status), "status %x", status);
	cr_assert_neq(WEXITSTATUS(status), 200, "cannot become another user");
	cr_assert_neq(WEXITSTATUS(status), 201, "other words");
	return WEXITSTATUS(status);
}

bool may_be_others(void)
{
	return geteuid() == 0 && chmod(folder, 0755) == 0;
}

int liar_listen(void)
{
	const struct sockaddr_un at = socket_address();
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	cr_assert_eq(bind(fd, (const struct sockaddr *)&at, sizeof(at)), 0, "%s", strerror(errno));
	cr_assert_eq(listen(fd, 8), 0);
	return fd;
}

int liar_accept(int listening)
{
	int fd;

	cr_assert_eq(shm_connect(&guest.link, "test", "hello", 5, &guest_calls, NULL), 0, "%s",
		     tb_error());
	fd = accept4(listening, NULL, NULL, SOCK_CLOEXEC);
	cr_assert_geq(fd, 0);
	return fd;
}

int lingering(int *other)
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

/* The first porter's descriptor from `fd` on, or -1. */
static int porter_next(int fd)
{
	char path[64], what[64];

	for (; fd < 1024; fd++) {
		ssize_t got;

		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		got = readlink(path, what, sizeof(what) - 1);
		what[got > 0 ? got : 0] = '\0';
		if (strcmp(what, "anon_inode:[pidfd]") == 0)
			return fd;
	}
	return -1;
}

static int porter_find(void)
{
	const int found = porter_next(3);

	cr_assert_geq(found, 0, "no porter");
	return found;
}

void porters_kill(void)
{
	for (int fd = porter_next(3); fd >= 0; fd = porter_next(fd + 1))
		syscall(SYS_pidfd_send_signal, fd, SIGKILL, NULL, 0);
}

void porter_signal(int signal)
{
	cr_assert_eq(syscall(SYS_pidfd_send_signal, porter_find(), signal, NULL, 0), 0);
}

pid_t porter_process(void)
{
	char path[64], line[128];
	FILE *file;
	int process = -1;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", porter_find());
	file = fopen(path, "r");
	cr_assert_not_null(file);
	while (process < 0 && fgets(line, sizeof(line), file))
		if (strncmp(line, "Pid:", 4) == 0)
			process = atoi(line + 4);
	fclose(file);
	cr_assert_gt(process, 0);
	return process;
}
