/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/simulation/sim_fabric.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/queue.h>
#include <unistd.h>

#include "bus/address.h"
#include "bus/clock.h"
#include "bus/error.h"
#include "bus/no_notices.h"
#include "bus/peers.h"
#include "tests/support/random.h"
#include "tickbus/error.h"

#define DEPTH      12
#define FRAMES_MAX 64
#define INBOX      64
#define OVERHEARD  32
#define PAGE       4096
#define MS         UINT64_C(1000000)

/* The publisher's memory. It exists as long as an exposure or a remote has it. */
struct region {
	unsigned int users;
	const char *base;
	size_t bytes;
	uint64_t rkey;
	uint32_t realm;
	uint64_t ends_ns; /* READs after this end their link; 0: it is exposed */
};

struct sim_exposure {
	struct exposure base;
	struct region *region;
	uint64_t kept_ns;
};

enum frame_kind { HELLO, CHALLENGE, WELCOME, REFUSAL, MESSAGE };

struct frame {
	STAILQ_ENTRY(frame) next;
	enum frame_kind kind;
	int code;              /* REFUSAL */
	struct region *region; /* that it hands over; NULL: it hands over no region */
	size_t bytes;
	uint8_t body[FABRIC_MESSAGE_BYTES];
};

struct frames {
	STAILQ_HEAD(, frame) list;
	unsigned int count;
};

struct datagram {
	size_t bytes;
	uint8_t body[SIM_NOTICE_BYTES];
};

enum order { WORDS, WORDS_DOWN, BYTES };

struct pending {
	struct fabric_read read;
	const char *from;
	enum order order;
	uint32_t done, at, step; /* BYTES: the next byte is `at`; the steps visit each byte once */
	int status;              /* of a READ that will fail */
};

struct sim_link {
	struct link base;
	TAILQ_ENTRY(sim_link) all;
	struct link_calls calls;
	void *user;
	struct sim_peer *peer; /* NULL: the publisher is gone */
	struct frames in;
	struct region *given; /* that came with the frame in the callback */
	enum link_state state;
	bool cut, receives;
	int fd;
	struct pending pending[DEPTH];
	unsigned int count;
	struct datagram inbox[INBOX];
	unsigned int first, waiting;
};

struct sim_peer {
	struct peers_entry entry;
	struct sim_link *link; /* NULL: the subscriber is gone */
	struct frames in;
};

struct sim_listener {
	struct listener base;
	TAILQ_ENTRY(sim_listener) all;
	char name[FABRIC_IDENTITY_BYTES];
	struct peers peers;
	uint64_t kept_ns;
	int fd;
};

struct sim_remote {
	struct remote base;
	struct region *region;
};

struct sim_faults sim_faults;
struct sim_seen sim_seen;
uint64_t sim_draws;
void (*sim_meanwhile)(void);
void (*sim_piece)(void);

static TAILQ_HEAD(, sim_link) links = TAILQ_HEAD_INITIALIZER(links);
static TAILQ_HEAD(, sim_listener) listeners = TAILQ_HEAD_INITIALIZER(listeners);
static struct datagram overheard[OVERHEARD];
static unsigned int overheard_count, regions;
static uint64_t rkeys;

static size_t draw(size_t bound)
{
	return random_below(&sim_draws, bound);
}

static bool chance(unsigned int in_thousand)
{
	return in_thousand > 0 && draw(1000) < in_thousand;
}

/* -- frames ------------------------------------------------------------------------------------
 */

static void region_drop(struct region *region)
{
	if (!region || --region->users > 0)
		return;
	munmap((void *)(uintptr_t)region->base, region->bytes);
	free(region);
	regions--;
}

static void frames_clear(struct frames *frames)
{
	struct frame *frame;

	while ((frame = STAILQ_FIRST(&frames->list))) {
		STAILQ_REMOVE_HEAD(&frames->list, next);
		region_drop(frame->region);
		free(frame);
	}
	frames->count = 0;
}

static struct frame *frame_take(struct frames *frames)
{
	struct frame *frame = STAILQ_FIRST(&frames->list);

	if (frame) {
		STAILQ_REMOVE_HEAD(&frames->list, next);
		frames->count--;
	}
	return frame;
}

static void frame_free(struct frame *frame)
{
	region_drop(frame->region);
	free(frame);
}

static struct frame *frame_add(struct frames *frames, enum frame_kind kind, const void *body,
			       size_t bytes, struct region *region)
{
	struct frame *frame = calloc(1, sizeof(*frame));

	if (!frame || bytes > sizeof(frame->body))
		abort();
	frame->kind = kind;
	frame->bytes = bytes;
	memcpy(frame->body, body, bytes);
	frame->region = region;
	if (region)
		region->users++;
	STAILQ_INSERT_TAIL(&frames->list, frame, next);
	frames->count++;
	return frame;
}

/* -- publisher ---------------------------------------------------------------------------------
 */

static int sim_node(const char *address)
{
	(void)address;
	return FABRIC_NO_DEVICE;
}

static int sim_identity(const char *address, char text[FABRIC_IDENTITY_BYTES])
{
	snprintf(text, FABRIC_IDENTITY_BYTES, "%s", address);
	return 0;
}

/* The subscriber finds the connection cut, unless it was refused: then it finds the reason. */
static void peer_end(struct peers_entry *entry)
{
	struct sim_peer *peer = (struct sim_peer *)entry;

	if (peer->link) {
		peer->link->peer = NULL;
		peer->link->cut = true;
	}
	peer->link = NULL;
	frames_clear(&peer->in);
}

static int readable(void)
{
	return eventfd(1, EFD_NONBLOCK | EFD_CLOEXEC); /* is never read: always readable */
}

static struct sim_listener *listener_of(const struct fabric_ops *ops, const char *name)
{
	struct sim_listener *listener;

	TAILQ_FOREACH(listener, &listeners, all)
	if (listener->base.ops == ops && strcmp(listener->name, name) == 0)
		return listener;
	return NULL;
}

static int listen_at(const struct fabric_ops *ops, struct listener **out,
		     const struct fabric_listen *listen, const struct listener_calls *calls,
		     void *user)
{
	struct sim_listener *listener = calloc(1, sizeof(*listener));

	*out = NULL;
	if (!listener)
		abort();
	if (listener_of(ops, listen->address)) {
		free(listener);
		return error_set(EADDRINUSE, "address %s is in use", listen->address);
	}
	listener->base.ops = ops;
	listener->fd = readable();
	listener->kept_ns = listen->withdrawn_ms * MS;
	snprintf(listener->name, sizeof(listener->name), "%s", listen->address);
	listener->peers = (struct peers){ .listener = &listener->base,
					  .calls = *calls,
					  .user = user,
					  .end = peer_end,
					  .max = listen->peers_max };
	TAILQ_INSERT_TAIL(&listeners, listener, all);
	*out = &listener->base;
	return 0;
}

static int sim_listener_fd(const struct listener *listener)
{
	return ((const struct sim_listener *)listener)->fd;
}

static void sim_listener_text(const struct listener *listener, char *text, size_t bytes)
{
	snprintf(text, bytes, "%s", ((const struct sim_listener *)listener)->name);
}

static void peer_hello(struct sim_peer *peer, const struct frame *frame)
{
	const struct peers *peers = peer->entry.peers;
	struct fabric_answer answer = { 0 };
	const int result = peers->calls.hello(peers->user, &peer->entry.base, frame->body,
					      frame->bytes, &answer);

	if (result == 0) {
		peer->entry.up = true;
		frame_add(&peer->link->in, WELCOME, answer.welcome, answer.welcome_bytes,
			  answer.given ? ((struct sim_exposure *)answer.given)->region : NULL);
	} else if (result == 1) {
		frame_add(&peer->link->in, CHALLENGE, answer.challenge, sizeof(answer.challenge),
			  NULL);
	} else {
		frame_add(&peer->link->in, REFUSAL, answer.reason, strlen(answer.reason) + 1, NULL)
			->code = -result;
		peers_log_refused(peer->entry.peers, peer->entry.text, answer.reason);
		peers_remove(&peer->entry);
	}
}

static int peer_poll(struct sim_peer *peer)
{
	struct frame *frame;
	int count = 0;

	while (!peer->entry.dead && peer->link && (frame = frame_take(&peer->in))) {
		const struct peers *peers = peer->entry.peers;

		count++;
		if (frame->kind == HELLO)
			peer_hello(peer, frame);
		else
			peers->calls.message(peers->user, &peer->entry.base, frame->body,
					     frame->bytes);
		frame_free(frame);
	}
	if (!peer->entry.dead && !peer->link) {
		peers_lost(&peer->entry, "the connection was cut");
		count++;
	}
	return count;
}

static int sim_listener_poll(struct listener *base)
{
	struct sim_listener *listener = (struct sim_listener *)base;
	struct peers_entry *entry, *next;
	int count = 0;

	for (entry = listener->peers.first; entry; entry = next) {
		next = entry->next;
		count += peer_poll((struct sim_peer *)entry);
	}
	peers_free_dead(&listener->peers);
	return count;
}

static void sim_listener_close(struct listener *base)
{
	struct sim_listener *listener = (struct sim_listener *)base;

	if (!listener)
		return;
	peers_close(&listener->peers);
	TAILQ_REMOVE(&listeners, listener, all);
	close(listener->fd);
	free(listener);
}

static int sim_expose(struct listener *listener, const struct memory *memory, uint32_t realm,
		      struct exposure **out)
{
	struct sim_exposure *exposure = calloc(1, sizeof(*exposure));
	struct region *region = calloc(1, sizeof(*region));

	if (!exposure || !region)
		abort();
	region->base = mmap(NULL, memory->mapped, PROT_READ, MAP_SHARED, memory->fd, 0);
	if (region->base == MAP_FAILED)
		abort();
	region->bytes = memory->mapped;
	region->rkey = ++rkeys;
	region->realm = realm;
	region->users = 1;
	regions++;
	exposure->base.ops = listener->ops;
	exposure->region = region;
	exposure->kept_ns = ((struct sim_listener *)listener)->kept_ns;
	*out = &exposure->base;
	return 0;
}

static void sim_withdraw(struct exposure *base)
{
	struct sim_exposure *exposure = (struct sim_exposure *)base;

	if (!exposure)
		return;
	exposure->region->ends_ns = clock_ns() + exposure->kept_ns;
	region_drop(exposure->region);
	free(exposure);
}

static int sim_key(struct exposure *exposure, struct peer *peer, struct fabric_key *key)
{
	(void)peer;
	*key = (struct fabric_key){ 0 };
	if (exposure->ops->network)
		key->rkey = ((struct sim_exposure *)exposure)->region->rkey;
	return 0;
}

static int send_bounded(struct peer *base, const void *message, size_t bytes,
			struct exposure *given, unsigned int bound)
{
	struct sim_peer *peer = (struct sim_peer *)base;

	if (!peer->link)
		return error_set(ENOTCONN, "not connected");
	if (peer->link->in.count >= bound)
		return error_set(EAGAIN, "the queue is full");
	frame_add(&peer->link->in, MESSAGE, message, bytes,
		  given ? ((struct sim_exposure *)given)->region : NULL);
	return 0;
}

static int sim_send(struct peer *peer, const void *message, size_t bytes, struct exposure *given)
{
	return send_bounded(peer, message, bytes, given, FRAMES_MAX);
}

static int sim_offer(struct peer *peer, const void *message, size_t bytes)
{
	return send_bounded(peer, message, bytes, NULL, FRAMES_MAX / 2);
}

/* -- connecting --------------------------------------------------------------------------------
 */

static struct sim_peer *peer_new(struct sim_listener *listener, struct sim_link *link)
{
	struct sim_peer *peer = calloc(1, sizeof(*peer));

	if (!peer)
		abort();
	peer->entry.base.ops = listener->base.ops;
	peer->entry.base.listener = &listener->base;
	peer->entry.base.origin[0] = 1;
	peer->entry.base.origin_bytes = FABRIC_ORIGIN_BYTES;
	peer->link = link;
	STAILQ_INIT(&peer->in.list);
	snprintf(peer->entry.text, sizeof(peer->entry.text), "a subscriber");
	peers_add(&listener->peers, &peer->entry);
	return peer;
}

static int connect_to(const struct fabric_ops *ops, struct link **out, const char *address,
		      const void *hello, size_t bytes, const struct link_calls *calls, void *user)
{
	struct sim_listener *listener = listener_of(ops, address);
	struct sim_link *link;

	*out = NULL;
	if (!listener)
		return error_set(ECONNREFUSED, "%s: nothing listens", address);
	link = calloc(1, sizeof(*link));
	if (!link)
		abort();
	link->base.ops = ops;
	link->calls = *calls;
	link->user = user;
	link->fd = readable();
	STAILQ_INIT(&link->in.list);
	link->peer = peer_new(listener, link);
	frame_add(&link->peer->in, HELLO, hello, bytes, NULL);
	TAILQ_INSERT_TAIL(&links, link, all);
	*out = &link->base;
	return 0;
}

static enum link_state sim_link_state(const struct link *link)
{
	return ((const struct sim_link *)link)->state;
}

static int sim_link_fd(const struct link *link)
{
	return ((const struct sim_link *)link)->fd;
}

static int sim_link_user(const struct link *link, uid_t *user)
{
	if (link->ops->network)
		return error_set(EOPNOTSUPP, "a network names no user");
	*user = 0;
	return 0;
}

static void link_gone(struct sim_link *link, int code, const char *why)
{
	for (unsigned int i = 0; i < link->count; i++)
		link->pending[i].status = -ECONNRESET;
	link->state = LINK_GONE;
	link->calls.gone(link->user, code, why);
}

static void link_challenged(struct sim_link *link, const struct frame *frame)
{
	uint8_t hello[FABRIC_HELLO_BYTES];
	const int result = link->calls.challenge(link->user, frame->body, hello);

	if (result < 0)
		link_gone(link, -result, tb_error());
	else if (link->peer)
		frame_add(&link->peer->in, HELLO, hello, sizeof(hello), NULL);
}

static void link_frame(struct sim_link *link, struct frame *frame)
{
	link->given = frame->region;
	switch (frame->kind) {
	case CHALLENGE:
		link_challenged(link, frame);
		break;
	case WELCOME:
		link->state = LINK_UP;
		link->calls.welcome(link->user, frame->body, frame->bytes);
		break;
	case REFUSAL:
		link_gone(link, frame->code, (const char *)frame->body);
		break;
	case MESSAGE:
		link->calls.message(link->user, frame->body, frame->bytes);
		break;
	case HELLO:
		abort();
	}
	link->given = NULL;
	frame_free(frame);
}

static int sim_link_poll(struct link *base)
{
	struct sim_link *link = (struct sim_link *)base;
	struct frame *frame;
	int count = 0;

	if (sim_meanwhile)
		sim_meanwhile();
	while (link->state != LINK_GONE && (frame = frame_take(&link->in))) {
		link_frame(link, frame);
		count++;
	}
	if (link->state != LINK_GONE && link->cut) {
		link_gone(link, ECONNRESET, "the connection was cut");
		count++;
	}
	return count;
}

static int sim_link_send(struct link *base, const void *message, size_t bytes)
{
	struct sim_link *link = (struct sim_link *)base;

	if (link->state != LINK_UP || !link->peer)
		return error_set(ENOTCONN, "not connected");
	if (link->peer->in.count >= FRAMES_MAX)
		return error_set(EAGAIN, "the queue is full");
	frame_add(&link->peer->in, MESSAGE, message, bytes, NULL);
	return 0;
}

static void sim_link_left(struct link *link)
{
	(void)link;
}

static void sim_link_break(struct link *base)
{
	struct sim_link *link = (struct sim_link *)base;

	link->state = LINK_GONE;
	for (unsigned int i = 0; i < link->count; i++)
		link->pending[i].status = -ECONNRESET;
	if (link->peer)
		link->peer->link = NULL;
	link->peer = NULL;
}

static void sim_link_settle(struct link *link)
{
	(void)link;
}

static void sim_link_close(struct link *base)
{
	struct sim_link *link = (struct sim_link *)base;

	if (!link)
		return;
	sim_link_break(base);
	frames_clear(&link->in);
	TAILQ_REMOVE(&links, link, all);
	close(link->fd);
	free(link);
}

/* -- memory of the subscriber ------------------------------------------------------------------
 */

static int sim_remote_open(struct link *base, struct fabric_key key, uint64_t bytes,
			   struct remote **out)
{
	struct sim_link *link = (struct sim_link *)base;
	struct sim_remote *remote;

	*out = NULL;
	if (!link->given || bytes > link->given->bytes ||
	    key.rkey != (base->ops->network ? link->given->rkey : 0))
		return error_set(EPROTO, "memory handed over: found no region as the message says");
	remote = calloc(1, sizeof(*remote));
	if (!remote)
		abort();
	remote->base = (struct remote){ .ops = base->ops, .link = base, .bytes = bytes };
	remote->region = link->given;
	remote->region->users++;
	*out = &remote->base;
	return 0;
}

static bool sim_remote_keep(struct link *base, struct remote *remote)
{
	if (!((struct sim_link *)base)->given ||
	    ((struct sim_link *)base)->given != ((struct sim_remote *)remote)->region)
		return false;
	remote->link = base;
	return true;
}

static void sim_remote_close(struct remote *base)
{
	struct sim_remote *remote = (struct sim_remote *)base;

	if (!remote)
		return;
	region_drop(remote->region);
	free(remote);
}

static const void *sim_view(const struct remote *remote)
{
	return remote->ops->network ? NULL : ((const struct sim_remote *)remote)->region->base;
}

static void *sim_landing(struct link *link, size_t bytes)
{
	void *memory = aligned_alloc(PAGE, (bytes + PAGE - 1) / PAGE * PAGE);

	(void)link;
	if (!memory)
		abort();
	memset(memory, 0, bytes);
	return memory;
}

static void sim_landing_free(struct link *link, void *memory, size_t bytes)
{
	(void)link;
	(void)bytes;
	free(memory);
}

/* -- READs -------------------------------------------------------------------------------------
 */

static unsigned int sim_depth(const struct link *link)
{
	(void)link;
	return DEPTH;
}

static uint32_t divisor(uint32_t a, uint32_t b)
{
	while (b) {
		const uint32_t rest = a % b;

		a = b;
		b = rest;
	}
	return a;
}

static void pending_begin(struct pending *pending, const struct fabric_read *read)
{
	const struct region *region = ((struct sim_remote *)read->remote)->region;

	*pending = (struct pending){ .read = *read,
				     .from = region->base + read->offset,
				     .order = draw(4) ? (draw(4) ? WORDS : WORDS_DOWN) : BYTES };
	pending->at = (uint32_t)draw(read->bytes);
	do
		pending->step = (uint32_t)draw(read->bytes) + 1;
	while (divisor(read->bytes, pending->step) != 1);
	if (chance(sim_faults.fail))
		pending->status = -EIO;
	sim_seen.reads++;
}

/* Copies the next piece: up to so many words, or bytes. */
static void piece_copy(struct pending *pending, uint32_t count)
{
	char *into = pending->read.into;

	for (; count > 0 && pending->done < pending->read.bytes; count--) {
		const uint32_t left = pending->read.bytes - pending->done;

		if (pending->order == BYTES) {
			into[pending->at] = ((const volatile char *)pending->from)[pending->at];
			pending->at = (pending->at + pending->step) % pending->read.bytes;
			pending->done++;
		} else {
			const uint32_t at = pending->order == WORDS ? pending->done : left - 8;
			const uint64_t word =
				*(const volatile uint64_t *)(const void *)(pending->from + at);

			memcpy(into + at, &word, sizeof(word));
			pending->done += 8;
		}
	}
	sim_seen.pieces++;
}

static bool is_done(const struct pending *pending)
{
	return pending->status < 0 || pending->done == pending->read.bytes;
}

/* A READ of memory that is withdrawn for too long ends the connection. */
static bool region_ended(struct sim_link *link, const struct fabric_read *read)
{
	const struct region *region = ((struct sim_remote *)read->remote)->region;

	if (region->ends_ns == 0 || clock_ns() < region->ends_ns)
		return false;
	sim_seen.gone++;
	link->cut = true;
	if (link->peer)
		link->peer->link = NULL;
	link->peer = NULL;
	return true;
}

static int sim_read(struct link *base, const struct fabric_read *reads, unsigned int count)
{
	struct sim_link *link = (struct sim_link *)base;
	unsigned int taken = 0;

	if (link->state != LINK_UP)
		return error_set(ENOTCONN, "not connected");
	for (; taken < count && link->count < DEPTH; taken++) {
		const struct fabric_read *read = &reads[taken];

		if (read->bytes == 0 || read->bytes % 8 || read->offset % 8 ||
		    read->offset > read->remote->bytes ||
		    read->bytes > read->remote->bytes - read->offset)
			return taken ? (int)taken : error_set(ERANGE, "read outside the region");
		if (link->cut || region_ended(link, read)) {
			pending_begin(&link->pending[link->count], read);
			link->pending[link->count++].status = -ECONNRESET;
		} else {
			pending_begin(&link->pending[link->count++], read);
		}
	}
	return (int)taken;
}

static void link_work(struct sim_link *link)
{
	struct pending *pending = &link->pending[draw(link->count)];

	if (is_done(pending) || chance(sim_faults.slow))
		return;
	piece_copy(pending, draw(8) ? (uint32_t)draw(24) + 1 : pending->read.bytes);
	if (sim_piece)
		sim_piece();
}

void sim_fabric_work(unsigned int pieces)
{
	struct sim_link *link;
	unsigned int count = 0, at;

	TAILQ_FOREACH(link, &links, all)
	count += link->count > 0;
	if (count == 0)
		return;
	for (; pieces > 0; pieces--) {
		at = (unsigned int)draw(count);
		TAILQ_FOREACH(link, &links, all)
		if (link->count > 0 && at-- == 0)
			break;
		if (link)
			link_work(link);
	}
}

static int sim_reap(struct link *base, struct fabric_completion *done, unsigned int max)
{
	struct sim_link *link = (struct sim_link *)base;
	unsigned int count = 0;

	for (unsigned int turns = link->count; turns > 0 && link->count > 0; turns--)
		link_work(link);
	for (unsigned int i = 0; i < link->count && count < max;) {
		struct pending *pending = &link->pending[i];

		if (!is_done(pending)) {
			i++;
			continue;
		}
		sim_seen.failed += pending->status < 0;
		done[count++] = (struct fabric_completion){ .tag = pending->read.tag,
							    .status = pending->status };
		*pending = link->pending[--link->count];
	}
	return (int)count;
}

static int sim_sleep(struct link *base)
{
	(void)base;
	return 1;
}

/* -- notices -----------------------------------------------------------------------------------
 */

static void sim_notices(const struct listener *listener, const struct sockaddr_storage *where,
			struct fabric_notices *notices)
{
	(void)listener;
	(void)where;
	*notices = (struct fabric_notices){ .kind = FABRIC_NOTICES_UDP, .bytes = SIM_NOTICE_BYTES };
	if (address_parse_group("239.1.1.1:7472", &notices->group) < 0)
		abort();
}

static int sim_announcer_open(struct listener *listener, const struct sockaddr_storage *where,
			      size_t bytes, struct announcer **out)
{
	(void)where;
	(void)bytes;
	*out = calloc(1, sizeof(**out));
	if (!*out)
		abort();
	(*out)->ops = listener->ops;
	return 0;
}

static void sim_announcer_close(struct announcer *announcer)
{
	free(announcer);
}

static void arrive(struct sim_link *link, const void *body, size_t bytes)
{
	struct datagram *last = &link->inbox[(link->first + link->waiting) % INBOX];

	if (!link->receives || link->waiting == INBOX)
		return;
	if (link->waiting > 0 && chance(sim_faults.reorder)) {
		struct datagram *before = &link->inbox[(link->first + link->waiting - 1) % INBOX];

		*last = *before;
		last = before;
		sim_seen.reordered++;
	}
	memcpy(last->body, body, bytes);
	last->bytes = bytes;
	link->waiting++;
}

static int sim_announce(struct announcer *announcer, const void *body, size_t bytes)
{
	struct datagram *heard = &overheard[overheard_count++ % OVERHEARD];
	struct sim_link *link;

	(void)announcer;
	if (bytes > SIM_NOTICE_BYTES)
		return -EMSGSIZE;
	memcpy(heard->body, body, bytes);
	heard->bytes = bytes;
	sim_seen.notices++;
	TAILQ_FOREACH(link, &links, all)
	{
		if (chance(sim_faults.drop)) {
			sim_seen.dropped++;
			continue;
		}
		arrive(link, body, bytes);
		if (chance(sim_faults.dup)) {
			sim_seen.doubled++;
			arrive(link, body, bytes);
		}
	}
	return 0;
}

static int sim_receive(struct link *base, const struct fabric_notices *notices)
{
	struct sim_link *link = (struct sim_link *)base;

	(void)notices;
	if (link->receives)
		return -EEXIST;
	link->receives = true;
	return 0;
}

static void sim_receive_end(struct link *link, const struct fabric_notices *notices)
{
	(void)notices;
	((struct sim_link *)link)->receives = false;
}

static size_t sim_datagram(struct link *base, void *datagram, size_t room)
{
	struct sim_link *link = (struct sim_link *)base;
	const struct datagram *first = &link->inbox[link->first % INBOX];

	if (link->waiting == 0 || first->bytes > room)
		return 0;
	memcpy(datagram, first->body, first->bytes);
	link->first = (link->first + 1) % INBOX;
	link->waiting--;
	return first->bytes;
}

/* -- the two fabrics ---------------------------------------------------------------------------
 */

static const struct fabric_ops network_ops, view_ops;

static int network_listen(struct listener **out, const struct fabric_listen *listen,
			  const struct listener_calls *calls, void *user)
{
	return listen_at(&network_ops, out, listen, calls, user);
}

static int network_connect(struct link **out, const char *address, const void *hello, size_t bytes,
			   const struct link_calls *calls, void *user)
{
	return connect_to(&network_ops, out, address, hello, bytes, calls, user);
}

static int view_listen(struct listener **out, const struct fabric_listen *listen,
		       const struct listener_calls *calls, void *user)
{
	return listen_at(&view_ops, out, listen, calls, user);
}

static int view_connect(struct link **out, const char *address, const void *hello, size_t bytes,
			const struct link_calls *calls, void *user)
{
	return connect_to(&view_ops, out, address, hello, bytes, calls, user);
}

#define BOTH                                                                                       \
	.identity = sim_identity, .node = sim_node, .listener_fd = sim_listener_fd,                \
	.listener_text = sim_listener_text, .listener_poll = sim_listener_poll,                    \
	.listener_close = sim_listener_close, .expose = sim_expose, .withdraw = sim_withdraw,      \
	.key = sim_key, .send = sim_send, .offer = sim_offer, .peer_text = peers_text,             \
	.drop = peers_drop, .link_state = sim_link_state, .link_fd = sim_link_fd,                  \
	.link_user = sim_link_user, .link_poll = sim_link_poll, .link_send = sim_link_send,        \
	.link_left = sim_link_left, .link_break = sim_link_break, .link_settle = sim_link_settle,  \
	.link_close = sim_link_close, .remote_open = sim_remote_open,                              \
	.remote_keep = sim_remote_keep, .remote_close = sim_remote_close, .view = sim_view,        \
	.landing = sim_landing, .landing_free = sim_landing_free, .depth = sim_depth,              \
	.read = sim_read, .reap = sim_reap, .sleep = sim_sleep

static const struct fabric_ops network_ops = {
	.scheme = "sim",
	.network = true,
	BOTH,
	.listen = network_listen,
	.connect = network_connect,
	.notices = sim_notices,
	.announcer_open = sim_announcer_open,
	.announcer_close = sim_announcer_close,
	.announce = sim_announce,
	.receive = sim_receive,
	.receive_end = sim_receive_end,
	.datagram = sim_datagram,
};

static const struct fabric_ops view_ops = {
	.scheme = "simview",
	BOTH,
	.listen = view_listen,
	.connect = view_connect,
	.notices = no_notices_kind,
	.announcer_open = no_notices_announcer,
	.announcer_close = no_notices_announcer_close,
	.announce = no_notices_announce,
	.receive = no_notices_receive,
	.receive_end = no_notices_receive_end,
	.datagram = no_notices_datagram,
};

void sim_fabric_add(void)
{
	if (fabric_add(&network_ops) < 0 || fabric_add(&view_ops) < 0)
		abort();
}

void sim_fabric_begin(void)
{
	sim_faults = (struct sim_faults){ 0 };
	sim_seen = (struct sim_seen){ 0 };
	sim_meanwhile = NULL;
	sim_piece = NULL;
	overheard_count = 0;
	rkeys = 0;
}

void sim_fabric_cut(unsigned int n)
{
	struct sim_link *link;
	unsigned int count = 0;

	TAILQ_FOREACH(link, &links, all)
	count++;
	if (count == 0)
		return;
	n %= count;
	TAILQ_FOREACH(link, &links, all)
	if (n-- == 0)
		break;
	if (!link->peer)
		return;
	link->peer->link = NULL;
	link->peer = NULL;
	link->cut = true;
	sim_seen.broken++;
}

void sim_fabric_forge(const void *datagram, size_t bytes)
{
	struct sim_link *link;

	TAILQ_FOREACH(link, &links, all)
	arrive(link, datagram, bytes);
	sim_seen.forged++;
}

const void *sim_fabric_overheard(unsigned int n, size_t *bytes)
{
	if (n >= overheard_count || n >= OVERHEARD)
		return NULL;
	*bytes = overheard[(overheard_count - 1 - n) % OVERHEARD].bytes;
	return overheard[(overheard_count - 1 - n) % OVERHEARD].body;
}

bool sim_fabric_is_empty(void)
{
	return TAILQ_EMPTY(&links) && TAILQ_EMPTY(&listeners) && regions == 0;
}
