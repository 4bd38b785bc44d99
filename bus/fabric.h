/* SPDX-License-Identifier: Apache-2.0 */
/* A fabric: how control messages travel and how another process's memory is read.
 *
 * A fabric owes only bytes. What they mean, and whether a copy is whole, is decided above it, in
 * one place for every fabric (bus/record.c and its siblings).
 *
 * Two sides. A publisher listens: peers connect, each with a hello that is accepted or refused; it
 * exposes regions of memory and hands them to peers together with a message. A subscriber connects,
 * opens the regions that it was handed, and reads them: reads are posted with a tag, land in memory
 * that the fabric made, may be outstanding in numbers, complete in any order, and may fail.
 *
 * Threads  A listener and its peers are used by one thread at a time: the control thread, and those
 *          that expose and withdraw memory, under their owner's lock. A link with its remotes and
 *          landings belongs to one (the subscriber's). Nothing here blocks; connecting and
 *          accepting go on inside poll.
 * Memory   All queues are bounded. A message is valid inside the callback.
 * Errors   0 or a count, or -errno with words. A peer or link that failed reports `gone` once, with
 *          words, and every read that was outstanding completes first, with an error.
 *
 * Over verbs, a realm is a protection domain, expose is a registration in it with the device of the
 * listener's address, a message carries address and rkey, and read is a list of IBV_WR_RDMA_READ
 * with one doorbell. */
#ifndef TICKBUS_BUS_FABRIC_H
#define TICKBUS_BUS_FABRIC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>

#include "bus/bounds.h"
#include "bus/memory.h"

#define FABRIC_HELLO_BYTES   56   /* private data of a connection request on InfiniBand and RoCE */
#define FABRIC_WELCOME_BYTES 192  /* private data of an accept */
#define FABRIC_REASON_BYTES  144  /* private data of a reject */
#define FABRIC_MESSAGE_BYTES 1024 /* one control message */
#define FABRIC_UNANSWERED    8    /* messages a side may have sent without an answer */

struct fabric_ops;
struct verbs_domain;

/* Each implementation begins its own structures with these. */
struct listener {
	const struct fabric_ops *ops;
};
struct peer {
	const struct fabric_ops *ops;
	struct listener *listener;
	void *user;     /* the owner's */
	uint32_t realm; /* below BOUND_REALMS_MAX: what it may be given was exposed in this one */
};
struct exposure {
	const struct fabric_ops *ops;
};
struct announcer {
	const struct fabric_ops *ops;
};
struct link {
	const struct fabric_ops *ops;
};
struct remote {
	const struct fabric_ops *ops;
	struct link *link;
	uint64_t bytes;
};

/* What a peer needs to open a region; travels inside messages. rdma: where it lies at the
 * publisher, and the key to READ it. shm: both 0, a descriptor goes with the message. */
struct fabric_key {
	uint64_t address;
	uint32_t rkey;
};

/* Who may connect, where the fabric can tell: shm by the socket's peer credentials. Ids, not names.
 * The listener's own user is always allowed. */
struct fabric_access {
	const uid_t *users;
	size_t user_count;
	const gid_t *groups;
	size_t group_count;
};

/* How notices travel, and where to. The publisher says what it wants, the welcome what is so. */
enum fabric_notices_kind {
	FABRIC_NOTICES_NONE = 0, /* they do not: subscribers look by themselves, or are woken */
	FABRIC_NOTICES_UD,       /* unreliable datagrams of the device, multicast */
	FABRIC_NOTICES_UDP,      /* UDP multicast on the device's interface */
	FABRIC_NOTICES_AUTO,     /* as the device can: for the publisher's side alone */
};

struct fabric_notices {
	enum fabric_notices_kind kind;
	uint32_t bytes; /* of the longest datagram */
	struct sockaddr_storage group;
};

/* What the listeners of one owner have in common, all under its lock; zeroed before the first. */
struct fabric_common {
	struct verbs_domain *domains; /* of each device and realm */
};

struct fabric_listen {
	const char *address;          /* without the scheme: NAME, HOST:PORT */
	struct fabric_common *common; /* outlives the listener; NULL: it shares nothing */
	struct fabric_access access;
	unsigned int peers_max;
	struct fabric_notices notices; /* where the fabric has any */
	/* A message that peers ignore. A fabric sends it where only an unanswered message shows
	 * that a peer is dead. Copied; 0 bytes: none is sent. */
	const void *keep_alive;
	size_t keep_alive_bytes;
};

enum fabric_log { FABRIC_LOG_NEWS, FABRIC_LOG_REFUSED, FABRIC_LOG_DROPPED };

/* What a listener calls from inside listener_poll. */
struct listener_calls {
	/* A connection request with its hello. Return 0 with peer->realm set, and fill welcome (its
	 * length in *welcome_bytes) and, where the welcome hands a region over, *given; or -errno
	 * and words of the refusal in reason, which travel to the peer. After 0 the peer lives
	 * until gone, in that realm. */
	int (*hello)(void *user, struct peer *peer, const void *hello, size_t bytes, void *welcome,
		     size_t *welcome_bytes, struct exposure **given,
		     char reason[FABRIC_REASON_BYTES]);
	void (*message)(void *user, struct peer *peer, const void *message, size_t bytes);
	/* Last call for this peer; why is words. */
	void (*gone)(void *user, struct peer *peer, const char *why);
	/* Something worth a line in the log: once for each connection that was refused or dropped,
	 * by drop too, and other news. */
	void (*log)(void *user, enum fabric_log, const char *words);
};

enum link_state { LINK_CONNECTING, LINK_UP, LINK_GONE };

/* What a link calls from inside link_poll. */
struct link_calls {
	void (*welcome)(void *user, const void *welcome, size_t bytes);
	/* A message; regions handed over with it are opened by remote_open inside the callback or
	 * they are dropped. The same holds for welcome. */
	void (*message)(void *user, const void *message, size_t bytes);
	/* Last call: code is ECONNREFUSED (nobody listens), ECONNRESET (the peer went), the
	 * publisher's own where it refused (EACCES: no permission; why holds its reason), or
	 * another errno. */
	void (*gone)(void *user, int code, const char *why);
};

struct fabric_read {
	struct remote *remote;
	uint64_t offset;
	uint32_t bytes; /* bounded by the remote's bytes: checked by read, -ERANGE */
	void *into;     /* inside a landing of the same link */
	uint64_t tag;
};

struct fabric_completion {
	uint64_t tag;
	int status; /* 0 or -errno */
};

struct fabric_ops {
	const char *scheme; /* "shm" */
	bool network; /* copies prove themselves by their check only: serves checked topics only */

	/* -- publisher ------------------------------------------------------------------------- */

	/* The NUMA node of the device that an address is of; -1: not known, or there is no device.
	 */
	int (*node)(const char *address);

	/* Begins to listen. -EADDRINUSE: another publisher holds the address. */
	int (*listen)(struct listener **, const struct fabric_listen *,
		      const struct listener_calls *, void *user);
	/* A descriptor that is readable when listener_poll has something to do. */
	int (*listener_fd)(const struct listener *);
	/* Accepts, receives, notices who went; calls back. Bounded work per call: 0 when there was
	 * nothing to do, more when there was, or -errno. */
	int (*listener_poll)(struct listener *);
	/* Ends every peer without calling back, releases the address, frees. Takes NULL. */
	void (*listener_close)(struct listener *);
	/* Makes a region readable by those peers of a realm that it is given to, never writable. A
	 * network's peers of other realms cannot read it, whatever they were told of it. */
	int (*expose)(struct listener *, const struct memory *, uint32_t realm, struct exposure **);
	/* Peers that hold it already may go on reading until they let go of it. Takes NULL. */
	void (*withdraw)(struct exposure *);
	/* What a message that gives this exposure must carry. */
	struct fabric_key (*key)(const struct exposure *);
	/* Sends a message, and with it the right to read `given` unless NULL. -EAGAIN: the peer
	 * does not take its messages (the caller drops it or tries later); -ENOTCONN: gone. */
	int (*send)(struct peer *, const void *message, size_t bytes, struct exposure *given);
	/* Who a peer is, for a line in the log ("pid 12 of user 1000"); at most bytes, terminated.
	 */
	void (*peer_words)(const struct peer *, char *words, size_t bytes);
	/* Ends a peer; no gone call follows. */
	void (*drop)(struct peer *, const char *why);

	/* -- subscriber ------------------------------------------------------------------------ */

	/* Begins to connect with this hello. Refusals come through link_calls.gone. */
	int (*connect)(struct link **, const char *address, const void *hello, size_t bytes,
		       const struct link_calls *, void *user);
	enum link_state (*link_state)(const struct link *);
	/* Readable when link_poll or reap has something to do, after sleep returned 0. */
	int (*link_fd)(const struct link *);
	int (*link_poll)(struct link *);
	int (*link_send)(struct link *, const void *message, size_t bytes);
	/* Ends the connection: reads that are outstanding complete with an error, if they had not
	 * completed, and can be reaped; no call follows. After this nothing lands any more. */
	void (*link_break)(struct link *);
	/* Frees it, after link_break and when its landings and remotes are closed; a remote that
	 * has a view may outlive its link. Takes NULL. */
	void (*link_close)(struct link *);
	/* Opens the region that came with the welcome or message now in the callback. bytes is what
	 * the message claims; what the region really has is checked against it (-EPROTO). */
	int (*remote_open)(struct link *, struct fabric_key, uint64_t bytes, struct remote **);
	/* Reads outstanding on it must have completed. Takes NULL. */
	void (*remote_close)(struct remote *);
	/* The region as words that change under the reader, or NULL where only read can reach it.
	 */
	const void *(*view)(const struct remote *);
	/* Memory that reads land in, aligned to a page. NULL with errno and words. */
	void *(*landing)(struct link *, size_t bytes);
	void (*landing_free)(struct link *, void *, size_t bytes);
	/* The most reads that may be outstanding on this link: 2 or more. */
	unsigned int (*depth)(const struct link *);
	/* Posts reads in order; the number taken (fewer when the depth is reached), or -errno. */
	int (*read)(struct link *, const struct fabric_read *, unsigned int count);
	/* Collects completions, up to max, in any order. */
	int (*reap)(struct link *, struct fabric_completion *, unsigned int max);
	/* Prepares for waiting on link_fd: 0, or 1 when something is there already. */
	int (*sleep)(struct link *);

	/* -- notices: a fabric whose readers see the memory itself has none (bus/no_notices.h) ---
	 */

	/* How notices to a group go now (NULL: to the one that listen was told of). */
	void (*notices)(const struct listener *, const struct sockaddr_storage *group,
			struct fabric_notices *);
	/* A sender of datagrams up to so many bytes to a group (NULL: as above), used by one thread
	 * beside the listener's; under the owner's lock. 0 without one: nothing goes there from the
	 * listener's address. */
	int (*announcer_open)(struct listener *, const struct sockaddr_storage *group, size_t bytes,
			      struct announcer **);
	/* Before the listener is closed; the sender's thread has stopped using it. Takes NULL. */
	void (*announcer_close)(struct announcer *);
	/* Sends a datagram and never waits: 0, or -errno without words: it was not sent. */
	int (*announce)(struct announcer *, const void *datagram, size_t bytes);
	/* Begins to receive what is sent to a group, of at most BOUND_NOTICE_GROUPS_MAX. 0 or
	 * -errno; -EEXIST: it is received already. */
	int (*receive)(struct link *, const struct fabric_notices *);
	/* Ends it, if it is. What came before may still be taken. */
	void (*receive_end)(struct link *, const struct fabric_notices *);
	/* The next datagram, of whichever group: its length, 0 none. Anyone may have sent it. */
	size_t (*datagram)(struct link *, void *datagram, size_t room);
};

/* The fabric for an address "SCHEME:REST", *rest set behind the colon; NULL with words. */
const struct fabric_ops *fabric_find(const char *address, const char **rest);

/* Adds one, for tests; before any thread uses fabric_find. At most 4. */
int fabric_add(const struct fabric_ops *);

#endif
