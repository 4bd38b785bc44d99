/* SPDX-License-Identifier: Apache-2.0 */
/* A fabric connects subscribers to a publisher. It carries their control messages, and lets
 * subscribers read the publisher's memory. There are two: shared memory (bus/shm) and RDMA verbs
 * (bus/verbs). Each fills every operation of struct fabric_ops.
 *
 * A fabric moves bytes and does not interpret them. Whether a copy is whole is decided above it, by
 * the same code for every fabric (bus/record.c, bus/progress.c, bus/bus_page.c).
 *
 *   listener   publisher: an address where it accepts subscribers
 *   peer       publisher: a connected subscriber
 *   exposure   publisher: a region of its memory that peers may read
 *   announcer  publisher: a sender of notices to a group
 *   link       subscriber: its connection to a publisher
 *   remote     subscriber: a region that it opened
 *   landing    subscriber: memory that the fabric made, for reads to land in
 *
 * A subscriber connects with a hello. The publisher accepts it, refuses it, or answers with a
 * challenge. The subscriber answers a challenge with a second hello. The publisher exposes a region
 * and hands it to the peer together with a message. The subscriber opens the region and posts reads
 * of it, each with a tag. Several reads may be outstanding; they complete in any order, and may
 * fail.
 *
 * Threads  Under the owner's lock, one thread at a time uses a listener and its peers. It is the
 *          control thread, or a thread that exposes or withdraws memory. Only the subscriber's
 *          thread uses a link with its remotes and landings. Nothing here blocks; connecting and
 *          accepting continue inside poll.
 * Memory   All queues are bounded. A message is valid inside the callback.
 * Errors   0 or a count, or -errno with the text of error_set(). A peer or a link that fails
 *          reports `gone` once, with a reason. Its outstanding reads complete before that, with an
 *          error.
 *
 * Over verbs, a realm is a protection domain, and an exposure is a registration in that domain. The
 * message that hands over the region carries its address and rkey. A call of read posts a list of
 * IBV_WR_RDMA_READ with one doorbell. */
#ifndef TICKBUS_BUS_FABRIC_H
#define TICKBUS_BUS_FABRIC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>

#include "bus/bounds.h"
#include "bus/memory.h"

#define FABRIC_HELLO_BYTES     56  /* private data of a connection request on InfiniBand and RoCE */
#define FABRIC_WELCOME_BYTES   192 /* private data of an accept */
#define FABRIC_REASON_BYTES    144 /* private data of a reject */
#define FABRIC_CHALLENGE_BYTES 16  /* answers a first hello */
#define FABRIC_IDENTITY_BYTES  64  /* text of a dialled address, terminated */
#define FABRIC_ORIGIN_BYTES    16  /* a peer's address */
#define FABRIC_MESSAGE_BYTES   1024 /* one control message */
#define FABRIC_UNANSWERED      8    /* messages a side may have sent without an answer */

#define FABRIC_DEPTH_MAX 64 /* READs outstanding on a link */

#define FABRIC_NO_DEVICE (-2) /* NUMA nodes are from 0 on; -1 is NUMA_ANY */

struct fabric_ops;
struct verbs_domain;

/* Each fabric begins its own structures with these. */
struct listener {
	const struct fabric_ops *ops;
};
struct peer {
	const struct fabric_ops *ops;
	struct listener *listener;
	void *user;     /* the owner's */
	uint32_t realm; /* below BOUND_REALMS_MAX: the peer may be given exposures of this realm */
	/* Where it connects from; set before the hello. rdma: its IP address, IPv4 mapped into
	 * IPv6. shm: user id and process id, u32 each, from the socket's peer credentials. */
	uint8_t origin[FABRIC_ORIGIN_BYTES];
	uint8_t origin_bytes;
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

/* What a peer needs to open a region; travels inside messages. rdma: the region's address at the
 * publisher, and the key to READ it. shm: both 0, a descriptor goes with the message. */
struct fabric_key {
	uint64_t address;
	uint64_t rkey; /* 64 bits for fabrics with longer keys; verbs has 32 */
};

/* The users and groups that may connect. Only shm checks this, by the socket's peer credentials.
 * Ids, not names. The listener's own user is always allowed. */
struct fabric_access {
	const uid_t *users;
	size_t user_count;
	const gid_t *groups;
	size_t group_count;
};

/* How notices travel, and to which group. The publisher states its wish, the welcome the result.
 * The numbers are those of enum tb_notice less 1, so 0 means no notices, on the wire as well. */
enum fabric_notices_kind {
	FABRIC_NOTICES_AUTO = -1, /* UD if the device has it, else UDP; only a publisher's wish */
	FABRIC_NOTICES_NONE,      /* no notices: subscribers poll, or are woken */
	FABRIC_NOTICES_UD,        /* unreliable datagrams of the device, multicast */
	FABRIC_NOTICES_UDP,       /* UDP multicast on the device's interface */
};

struct fabric_notices {
	enum fabric_notices_kind kind;
	uint32_t bytes; /* maximum datagram size */
	struct sockaddr_storage group;
};

/* What the listeners of one owner share, under the owner's lock. Zeroed before the first. */
struct fabric_common {
	struct verbs_domain *domains; /* of each device and realm */
};

struct fabric_listen {
	const char *address;          /* without the scheme: NAME, HOST:PORT */
	struct fabric_common *common; /* outlives the listener; NULL: nothing is shared */
	struct fabric_access access;
	unsigned int peers_max;
	unsigned int peers_per_user;   /* that wait for a hello; 0: peers_max. Only over shm */
	uint32_t withdrawn_ms;         /* how long withdrawn memory stays readable by READs */
	struct fabric_notices notices; /* ignored by a fabric without notices */
	/* A message that peers ignore. A fabric sends it where only an unanswered message shows
	 * that a peer is dead. Copied. 0 bytes: no keep-alive. */
	const void *keep_alive;
	size_t keep_alive_bytes;
};

enum fabric_log {
	FABRIC_LOG_INFO,
	FABRIC_LOG_REFUSED,
	FABRIC_LOG_DROPPED,
	FABRIC_LOG_LOST, /* the address is lost for good: nothing can connect any more */
};

/* The answer to a hello: zeroed, and one part of it is filled. */
struct fabric_answer {
	uint8_t welcome[FABRIC_WELCOME_BYTES];
	size_t welcome_bytes;
	struct exposure *given; /* a region that the welcome hands over, or NULL */
	uint8_t challenge[FABRIC_CHALLENGE_BYTES];
	char reason[FABRIC_REASON_BYTES];
};

/* What a listener calls from inside listener_poll. */
struct listener_calls {
	/* A connection request with its hello. Returns what the fabric does:
	 *   0       accepts it with the welcome; peer->realm is set. The peer lives until gone.
	 *   1       answers with the challenge and keeps nothing of the request. At most one
	 *           further hello of the peer follows, over verbs as a new peer.
	 *   -errno  refuses it; the reason travels to the peer. */
	int (*hello)(void *user, struct peer *peer, const void *hello, size_t bytes,
		     struct fabric_answer *);
	void (*message)(void *user, struct peer *peer, const void *message, size_t bytes);
	/* The last call for this peer. */
	void (*gone)(void *user, struct peer *peer, const char *why);
	/* A line for the log: once for each connection that was refused or dropped (also by drop),
	 * and for other changes. */
	void (*log)(void *user, enum fabric_log, const char *text);
};

enum link_state { LINK_CONNECTING, LINK_UP, LINK_GONE };

/* What a link calls from inside link_poll. */
struct link_calls {
	/* The publisher's challenge, at most once: fills the second hello, as long as the first.
	 * -errno, with a text, ends the link. */
	int (*challenge)(void *user, const uint8_t challenge[FABRIC_CHALLENGE_BYTES],
			 uint8_t hello[FABRIC_HELLO_BYTES]);
	void (*welcome)(void *user, const void *welcome, size_t bytes);
	/* A region that came with a message or a welcome is opened by remote_open inside the
	 * callback; otherwise it is dropped. */
	void (*message)(void *user, const void *message, size_t bytes);
	/* The last call. code is an errno value. ECONNREFUSED: no publisher listens. ECONNRESET:
	 * the connection ended. If the publisher refused, code and why are the publisher's
	 * (EACCES: no permission). */
	void (*gone)(void *user, int code, const char *why);
};

struct fabric_read {
	struct remote *remote;
	uint64_t offset;
	uint32_t bytes; /* read checks them against the remote's bytes: -ERANGE */
	void *into;     /* inside a landing of the same link */
	uint64_t tag;
};

struct fabric_completion {
	uint64_t tag;
	int status; /* 0 or -errno */
};

struct fabric_ops {
	const char *scheme; /* "shm" */
	bool network; /* a copy is proven only by its check, so only checked topics are served */

	/* The text that both sides have for an address (without its scheme): what a subscriber
	 * dials is what the publisher listens at. 0 or -errno. */
	int (*identity)(const char *address, char text[FABRIC_IDENTITY_BYTES]);

	/* -- publisher ------------------------------------------------------------------------- */

	/* The NUMA node of an address's device; NUMA_ANY: the device reports no node;
	 * FABRIC_NO_DEVICE: the address has no device. */
	int (*node)(const char *address);

	/* Begins to listen. -EADDRINUSE: another publisher has the address. */
	int (*listen)(struct listener **, const struct fabric_listen *,
		      const struct listener_calls *, void *user);
	/* A descriptor that is readable when listener_poll has work. */
	int (*listener_fd)(const struct listener *);
	/* Where it listens, for the log: the path of its socket, or HOST:PORT. */
	void (*listener_text)(const struct listener *, char *text, size_t bytes);
	/* Accepts, receives, finds peers that are gone; calls back. Bounded work per call. Returns
	 * 0 when there was no work, more when there was, or -errno. */
	int (*listener_poll)(struct listener *);
	/* Ends every peer without a callback, releases the address, frees. Takes NULL. */
	void (*listener_close)(struct listener *);
	/* Makes a region readable, never writable, by the peers of a realm that are given it. Over
	 * a network, peers of other realms cannot read it even if they know its key. */
	int (*expose)(struct listener *, const struct memory *, uint32_t realm, struct exposure **);
	/* Peers that hold the region may read it until they let go of it. Takes NULL. */
	void (*withdraw)(struct exposure *);
	/* What a message that gives this exposure to a peer must carry; the peer's realm is set.
	 * -errno with a text: the exposure cannot be given. */
	int (*key)(struct exposure *, struct peer *, struct fabric_key *);
	/* Sends a message, and with it the right to read `given` unless NULL. -EAGAIN: the peer
	 * does not take its messages; drop it or try later. -ENOTCONN: it is gone. A connection
	 * that failed may lose the message: gone follows. */
	int (*send)(struct peer *, const void *message, size_t bytes, struct exposure *given);
	/* Sends a message that can wait: -EAGAIN if half of the peer's queue is in use, else as
	 * send. The other half is for answers: a peer has at most FABRIC_UNANSWERED requests. */
	int (*offer)(struct peer *, const void *message, size_t bytes);
	/* Names a peer for a line in the log ("pid 12 of user 1000"): at most bytes, terminated. */
	void (*peer_text)(const struct peer *, char *text, size_t bytes);
	/* Ends a peer. No gone call follows. */
	void (*drop)(struct peer *, const char *why);

	/* -- subscriber ------------------------------------------------------------------------ */

	/* Begins to connect with this hello. A refusal comes through link_calls.gone. */
	int (*connect)(struct link **, const char *address, const void *hello, size_t bytes,
		       const struct link_calls *, void *user);
	enum link_state (*link_state)(const struct link *);
	/* Readable when link_poll or reap has work, after sleep returned 0. */
	int (*link_fd)(const struct link *);
	/* The user of the process that listens, as the kernel says. -EOPNOTSUPP: over a network. */
	int (*link_user)(const struct link *, uid_t *user);
	int (*link_poll)(struct link *);
	int (*link_send)(struct link *, const void *message, size_t bytes);
	/* The running link_poll will not return: a call of its owner was left by a jump. After this
	 * only link_break, reap and the calls that free may follow. */
	void (*link_left)(struct link *);
	/* Ends the connection. Outstanding reads complete with an error and can be reaped. No call
	 * follows, and nothing lands after this. */
	void (*link_break)(struct link *);
	/* After link_break: waits a short time until nothing is left of the connection in other
	 * processes. For a program that closes: a program that polls must not wait. */
	void (*link_settle)(struct link *);
	/* Frees the link, after link_break, and after its landings and remotes are closed. A remote
	 * that has a view may outlive its link. Takes NULL. */
	void (*link_close)(struct link *);
	/* Opens the region that came with the welcome or message now in the callback. bytes is the
	 * message's claim; it is checked against the region's size (-EPROTO). */
	int (*remote_open)(struct link *, struct fabric_key, uint64_t bytes, struct remote **);
	/* Whether the region that came with the message now in the callback is this remote's. The
	 * remote has a view and outlived an earlier link. If so, it belongs to this link from now
	 * on, and the region need not be opened. */
	bool (*remote_keep)(struct link *, struct remote *);
	/* Its outstanding reads must have completed. Takes NULL. */
	void (*remote_close)(struct remote *);
	/* The region as words that change under the reader; NULL if only read can reach it. */
	const void *(*view)(const struct remote *);
	/* Memory that reads land in, aligned to a page. NULL with errno and a text. */
	void *(*landing)(struct link *, size_t bytes);
	void (*landing_free)(struct link *, void *, size_t bytes);
	/* Maximum number of outstanding reads on this link, 2 to FABRIC_DEPTH_MAX. */
	unsigned int (*depth)(const struct link *);
	/* Posts reads in order. Returns how many were taken (fewer at the depth), or -errno. */
	int (*read)(struct link *, const struct fabric_read *, unsigned int count);
	/* Collects completions, up to max, in any order. */
	int (*reap)(struct link *, struct fabric_completion *, unsigned int max);
	/* Prepares for waiting on link_fd: 0, or 1 when there is work already. */
	int (*sleep)(struct link *);

	/* -- notices; bus/no_notices.h has the operations of a fabric without them --------------
	 */

	/* How notices to a group travel now. Group NULL: the group given to listen. */
	void (*notices)(const struct listener *, const struct sockaddr_storage *group,
			struct fabric_notices *);
	/* A sender of datagrams of at most `bytes` to a group (NULL: as above). One thread uses it,
	 * beside the listener's thread. Under the owner's lock. 0 with NULL: the listener's address
	 * cannot send to this group. */
	int (*announcer_open)(struct listener *, const struct sockaddr_storage *group, size_t bytes,
			      struct announcer **);
	/* Before the listener is closed, when the sender's thread has stopped using it. Takes NULL.
	 */
	void (*announcer_close)(struct announcer *);
	/* Sends a datagram and never waits: 0, or -errno without a text: it was not sent. */
	int (*announce)(struct announcer *, const void *datagram, size_t bytes);
	/* Begins to receive from a group, of at most BOUND_NOTICE_GROUPS_MAX. 0 or -errno; -EEXIST:
	 * the group is received already. */
	int (*receive)(struct link *, const struct fabric_notices *);
	/* Ends it. Datagrams that arrived before may still be taken. */
	void (*receive_end)(struct link *, const struct fabric_notices *);
	/* The next datagram of any group: its length, or 0. Anyone may have sent it. */
	size_t (*datagram)(struct link *, void *datagram, size_t room);
};

/* The part of a peer's origin that names its host: the IP address, or over shared memory the user
 * id. The rest is zeros. */
void fabric_host_of(const struct peer *, uint8_t host[FABRIC_ORIGIN_BYTES]);

/* The fabric for an address "SCHEME:REST", *rest set behind the colon; NULL with a text. It may be
 * the decorator "fault:FAULTS/ADDRESS" (bus/fault/fault.h), which is for subscribers. */
const struct fabric_ops *fabric_find(const char *address, const char **rest);

/* The same, without decorators. */
const struct fabric_ops *fabric_undecorated(const char *address, const char **rest);

/* The fabric that an address reaches in the end, with the address there: what is below a decorator.
 * NULL with a text. */
const struct fabric_ops *fabric_reached(const char *address, const char **rest);

/* Copies *rest of fabric_find for connecting. A user's name in an address over shared memory
 * becomes the user's id, so that connecting looks nothing up. The caller frees the copy. 0, or
 * -errno with a text. */
int fabric_settle(const char *address, char **rest);

/* Adds a fabric, for tests, before any thread uses fabric_find. At most 4. */
int fabric_add(const struct fabric_ops *);

#endif
