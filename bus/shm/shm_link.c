/* SPDX-License-Identifier: Apache-2.0 */
/* The subscriber's side of the shm fabric: a socket, and mappings that are read in place or copied.
 *
 * A read is done when it is posted, word by word, with no more order than a network gives. Its
 * completion is collected as over any fabric.
 *
 * H5  A hello that is not answered for ATTEMPT_MS ends the attempt, and its owner may try again. A
 *     process that listens and stays silent must not hold the subscriber for ever. */
#include "bus/shm/shm.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bus/clock.h"
#include "bus/error.h"
#include "bus/shm/shm_frame.h"
#include "bus/shm/shm_inlet.h"
#include "bus/shm/shm_search.h"
#include "bus/words.h"
#include "tickbus/error.h"

#define DEPTH           FABRIC_DEPTH_MAX
#define FRAMES_PER_POLL 32
#define ATTEMPT_MS      3000

struct shm_link {
	struct link base;
	struct link_calls calls;
	void *user;
	int fd;
	uid_t listener;         /* the user that listens */
	struct shm_inlet inlet; /* what arrives at fd, which it closes */
	int given;              /* the descriptor that came with the frame now in a callback */
	enum link_state state;
	uint64_t begun_ms;
	bool challenged; /* the second hello was sent */
	bool polling;
	bool closed; /* by a callback; freed when the poll is over */
	unsigned int done_first, done_count;
	uint64_t done[DEPTH];
};

/* Connects to a publisher. A socket that met a process which the address refuses is not used. */
static int link_search(struct shm_link *link, const char *address)
{
	struct shm_address parsed;
	struct shm_search search;
	struct shm_origin origin = { 0 };
	int result = shm_address_parse(address, &parsed), fd;

	if (result < 0)
		return result;
	shm_search_begin(&search, &parsed);
	do {
		fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
		if (fd < 0)
			return error_set(errno, "address shm:%s: cannot create a socket: %s",
					 address, strerror(errno));
		result = shm_search_connect(&search, fd, &origin);
		if (result != 0)
			shm_inlet_discard(fd, &origin);
	} while (result > 0);
	if (result < 0)
		return result;
	link->fd = fd;
	link->listener = origin.user;
	result = shm_inlet_open(&link->inlet, fd, &origin);
	return result < 0 ? error_prefix(result, "address shm:%s: ", address) : 0;
}

int shm_connect(struct link **out, const char *address, const void *hello, size_t bytes,
		const struct link_calls *calls, void *user)
{
	struct shm_link *link = calloc(1, sizeof(*link));
	int result;

	*out = NULL;
	if (!link)
		return error_set(ENOMEM, "address shm:%s: no memory", address);
	*link = (struct shm_link){ .calls = *calls,
				   .user = user,
				   .fd = -1,
				   .inlet.socket = -1,
				   .given = -1,
				   .begun_ms = clock_ms() };
	result = link_search(link, address);
	if (result < 0) {
		free(link);
		return result;
	}
	result = shm_frame_send(link->fd, SHM_HELLO, hello, bytes, -1);
	if (result < 0 &&
	    result != -ECONNRESET) { /* if it was refused already, link_poll reports the reason */
		shm_inlet_close(&link->inlet);
		free(link);
		return result;
	}
	link->state = LINK_CONNECTING;
	*out = &link->base;
	return 0;
}

enum link_state shm_link_state(const struct link *base)
{
	return ((const struct shm_link *)base)->state;
}

int shm_link_fd(const struct link *base)
{
	return ((const struct shm_link *)base)->inlet.epoll;
}

int shm_link_user(const struct link *base, uid_t *user)
{
	*user = ((const struct shm_link *)base)->listener;
	return 0;
}

static void link_gone(struct shm_link *link, int code, const char *why)
{
	link->state = LINK_GONE;
	link->calls.gone(link->user, code, why);
}

static void link_refused(struct shm_link *link, const uint8_t *body, size_t bytes)
{
	char why[FABRIC_REASON_BYTES + 1];
	uint32_t code = EPROTO;

	if (bytes < sizeof(code) || bytes > sizeof(code) + FABRIC_REASON_BYTES) {
		link_gone(link, EPROTO, "refused without a valid reason");
		return;
	}
	memcpy(&code, body, sizeof(code));
	memcpy(why, body + sizeof(code), bytes - sizeof(code));
	why[bytes - sizeof(code)] = '\0';
	for (char *c = why; *c; c++)
		if (*c < ' ' || *c > '~')
			*c = '?';
	link_gone(link, code > 0 && code < 4096 ? (int)code : EPROTO, why);
}

/* Ends the link after a receive that failed with this code. */
static void link_lost(struct shm_link *link, int code)
{
	if (code == -EMFILE || code == -EPIPE)
		link_gone(link, -code, tb_error());
	else if (code == -EBADMSG)
		link_gone(link, EPROTO, tb_error());
	else if (code == -EPROTO)
		link_gone(link, EPROTO, "the publisher sent a frame of a wrong size");
	else
		link_gone(link, -code, "the publisher closed the connection");
}

/* The second hello goes over the same connection. */
static void link_challenged(struct shm_link *link, const struct shm_frame *frame, size_t bytes)
{
	uint8_t hello[FABRIC_HELLO_BYTES];
	int result;

	if (bytes != FABRIC_CHALLENGE_BYTES || link->challenged) {
		link_gone(link, EPROTO, "the publisher sent an invalid challenge");
		return;
	}
	link->challenged = true;
	result = link->calls.challenge(link->user, frame->body, hello);
	link->begun_ms = clock_ms();
	if (result == 0)
		result = shm_frame_send(link->fd, SHM_HELLO, hello, sizeof(hello), -1);
	if (result < 0 && result != -ECONNRESET) /* the reason for a reset can still be read */
		link_gone(link, -result, tb_error());
}

static void link_frame(struct shm_link *link, const struct shm_frame *frame, size_t bytes)
{
	const bool connecting = link->state == LINK_CONNECTING;

	if (frame->kind == SHM_REFUSAL) {
		link_refused(link, frame->body, bytes);
	} else if (frame->kind == SHM_CHALLENGE && connecting) {
		link_challenged(link, frame, bytes);
	} else if (frame->kind == SHM_WELCOME && connecting) {
		link->state = LINK_UP;
		link->calls.welcome(link->user, frame->body, bytes);
	} else if (frame->kind == SHM_MESSAGE && !connecting) {
		link->calls.message(link->user, frame->body, bytes);
	} else {
		link_gone(link, EPROTO, "the publisher sent an unexpected frame");
	}
	if (link->given >= 0)
		close(link->given);
	link->given = -1;
}

int shm_link_poll(struct link *base)
{
	struct shm_link *link = (struct shm_link *)base;
	struct shm_frame frame;
	int count = 0, bytes;
	bool reset = false;

	link->polling = true;
	while (count < FRAMES_PER_POLL && link->state != LINK_GONE && !link->closed) {
		bytes = shm_inlet_receive(&link->inlet, &frame, &link->given);
		if (bytes == -EAGAIN)
			break;
		count++;
		if (bytes == -ECONNRESET && !reset) {
			reset = true; /* frames from before the reset can still be read */
			continue;
		}
		if (bytes < 0)
			link_lost(link, bytes);
		else
			link_frame(link, &frame, (size_t)bytes);
	}
	if (!link->closed && link->state == LINK_CONNECTING &&
	    clock_ms() - link->begun_ms >= ATTEMPT_MS)
		link_gone(link, ETIMEDOUT, "no answer"); /* H5 */
	link->polling = false;
	if (link->closed)
		shm_link_close(base);
	return count;
}

int shm_link_send(struct link *base, const void *message, size_t bytes)
{
	struct shm_link *link = (struct shm_link *)base;

	if (link->state != LINK_UP)
		return error_set(ENOTCONN, "not connected");
	return shm_frame_send(link->fd, SHM_MESSAGE, message, bytes, -1);
}

void shm_link_left(struct link *base)
{
	((struct shm_link *)base)->polling = false;
}

void shm_link_break(struct link *base)
{
	struct shm_link *link = (struct shm_link *)base;

	link->state = LINK_GONE;
	shm_inlet_break(&link->inlet);
	link->fd = -1;
}

void shm_link_settle(struct link *base)
{
	shm_inlet_settle(&((struct shm_link *)base)->inlet);
}

void shm_link_close(struct link *base)
{
	struct shm_link *link = (struct shm_link *)base;

	if (!link)
		return;
	if (link->polling) {
		link->closed = true;
		return;
	}
	if (link->given >= 0)
		close(link->given);
	shm_inlet_close(&link->inlet);
	free(link);
}

int shm_remote_open(struct link *base, struct fabric_key key, uint64_t bytes, struct remote **out)
{
	struct shm_link *link = (struct shm_link *)base;
	struct shm_remote *remote;
	struct stat status;
	int result;

	*out = NULL;
	if (key.address != 0 || key.rkey != 0)
		return error_set(EPROTO,
				 "memory handed over: found an rkey, expected none over shm");
	if (link->given < 0)
		return error_set(EPROTO,
				 "memory handed over: found no descriptor with the message");
	remote = calloc(1, sizeof(*remote));
	if (!remote)
		return error_set(ENOMEM, "memory handed over: no memory");
	result = memory_map_foreign(link->given, bytes, &remote->memory, &remote->mapped);
	if (result < 0) {
		free(remote);
		return result;
	}
	if (fstat(link->given, &status) == 0) {
		remote->device = status.st_dev;
		remote->inode = status.st_ino;
	}
	remote->base = (struct remote){ .ops = base->ops, .link = base, .bytes = bytes };
	*out = &remote->base;
	return 0;
}

/* A memfd's inode is used for no other memfd while it is mapped. */
bool shm_remote_keep(struct link *base, struct remote *kept)
{
	const struct shm_link *link = (struct shm_link *)base;
	struct shm_remote *remote = (struct shm_remote *)kept;
	struct stat status;

	if (link->given < 0 || fstat(link->given, &status) < 0 || remote->inode == 0 ||
	    status.st_ino != remote->inode || status.st_dev != remote->device)
		return false;
	remote->base.link = base;
	return true;
}

void shm_remote_close(struct remote *base)
{
	struct shm_remote *remote = (struct shm_remote *)base;

	if (!remote)
		return;
	memory_unmap_foreign(remote->memory, remote->mapped);
	free(remote);
}

const void *shm_view(const struct remote *base)
{
	return ((const struct shm_remote *)base)->memory;
}

void *shm_landing(struct link *base, size_t bytes)
{
	void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

	(void)base;
	if (memory != MAP_FAILED)
		return memory;
	error_set(errno, "cannot allocate %zu bytes for reads to land in: %s", bytes,
		  strerror(errno));
	return NULL;
}

void shm_landing_free(struct link *base, void *memory, size_t bytes)
{
	(void)base;
	if (memory)
		munmap(memory, bytes);
}

unsigned int shm_depth(const struct link *base)
{
	(void)base;
	return DEPTH;
}

int shm_read(struct link *base, const struct fabric_read *reads, unsigned int count)
{
	struct shm_link *link = (struct shm_link *)base;
	unsigned int taken = 0;

	if (link->state != LINK_UP)
		return error_set(ENOTCONN, "not connected");
	for (; taken < count && link->done_count < DEPTH; taken++) {
		const struct fabric_read *read = &reads[taken];
		const uint64_t end = read->remote->bytes;

		if (read->bytes == 0 || read->bytes % 8 || read->offset % 8 || read->offset > end ||
		    read->bytes > end - read->offset)
			return taken ? (int)taken
				     : error_set(ERANGE,
						 "read of %u bytes at %llu: expected words within "
						 "the "
						 "region's %llu bytes",
						 read->bytes, (unsigned long long)read->offset,
						 (unsigned long long)end);
		words_load(read->into,
			   (const char *)((const struct shm_remote *)read->remote)->memory +
				   read->offset,
			   read->bytes);
		/* A read that is posted after this one completes samples the memory later. */
		atomic_thread_fence(memory_order_acquire);
		link->done[(link->done_first + link->done_count++) % DEPTH] = read->tag;
	}
	return (int)taken;
}

int shm_reap(struct link *base, struct fabric_completion *completions, unsigned int max)
{
	struct shm_link *link = (struct shm_link *)base;
	unsigned int count = 0;

	for (; count < max && link->done_count > 0; count++) {
		completions[count] =
			(struct fabric_completion){ .tag = link->done[link->done_first] };
		link->done_first = (link->done_first + 1) % DEPTH;
		link->done_count--;
	}
	return (int)count;
}

int shm_sleep(struct link *base)
{
	const struct shm_link *link = (const struct shm_link *)base;

	return link->done_count > 0 || link->state == LINK_GONE;
}
