/* SPDX-License-Identifier: Apache-2.0 */
/* The verbs fabric, "rdma:HOST:PORT": its parts.
 *
 *   verbs.c           the table of operations; ids, events and errors in our words
 *   verbs_device.c    where a device is
 *   verbs_async.c     whether a device is lost
 *   verbs_domain.c    protection domains of a device, one for each realm, and memory in them
 *   verbs_private_data.c      what an accept and a reject carry
 *   verbs_channel.c   control messages as SENDs over one reliable connection, and its send queue
 *   verbs_listener.c  the publisher's side: accepts, registers memory for remote READ
 *   verbs_link.c      the subscriber's side: connects, READs
 *   verbs_notice.c    notices: UD multicast, UDP where a device has no UD
 *
 * Only librdmacm knows whether the link layer is InfiniBand, Ethernet (RoCE) or iWARP. The dialects
 * of both libraries (positive errno; -1 with errno; NULL with errno) end in these files. */
#ifndef TICKBUS_BUS_VERBS_H
#define TICKBUS_BUS_VERBS_H

#include <assert.h>
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <stdatomic.h>

#include "bus/address.h"
#include "bus/bounds.h"
#include "bus/fabric.h"

#define VERBS_CREDITS      16 /* messages that may be on their way to one side */
#define VERBS_EXTRA        4  /* receives beyond them, for frames without a message */
#define VERBS_RECEIVES     (VERBS_CREDITS + VERBS_EXTRA)
#define VERBS_SENDS        (VERBS_CREDITS + VERBS_EXTRA)
#define VERBS_READS        64 /* the most READs in a send queue */
#define VERBS_WORKS        (VERBS_READS + VERBS_SENDS + 1)
#define VERBS_FRAME_HEADER 8

/* READs that a connection may have under way: what a subscriber asks for, what a device that tells
 * no bound is taken to answer, the most that a request can say. */
#define VERBS_DEPTH_ASKED   16
#define VERBS_DEPTH_UNKNOWN 16
#define VERBS_DEPTH_MOST    255

/* -- events of the connection manager -----------------------------------------------------------
 */

/* ENOTSUPP of Linux's own, which no header has: RoCE joins no groups of IPv6. */
#define VERBS_NOT_IN_KERNEL 524

/* A copy, so that the event is given back before anything is done about it. */
struct verbs_event {
	enum rdma_cm_event_type type;
	struct rdma_cm_id *id;
	int status;
	struct rdma_conn_param conn;
	struct rdma_ud_param ud;
	void *joined; /* of a group: what was given when it was joined */
	uint8_t data[256];
	size_t bytes; /* of data */
};

/* 1 and the next event, 0 none, -errno. */
int verbs_event_take(struct rdma_event_channel *, struct verbs_event *);
/* Of an event that tells of a failure: an errno value. What librdmacm itself could not do has
 * status -1, what the other side answered a number above 0: both are EIO. */
int verbs_event_code(const struct verbs_event *);
/* A channel whose descriptor does not block; NULL with errno set and words. */
struct rdma_event_channel *verbs_events_open(const char *address);
/* An id that is bound to an address of this host, and so has its device; NULL with errno. */
struct rdma_cm_id *verbs_id_bound(struct rdma_event_channel *, enum rdma_port_space,
				  const struct sockaddr_storage *local, uint32_t traffic_class);
int verbs_nonblocking(int fd);
/* The NUMA node of a device, -1: it tells none, and the processors near it ("" where it does not
 * say). */
int verbs_device_node(const struct ibv_device *, char *cpus, size_t bytes);
/* error_set() with the words for an errno that verbs or the connection manager gave. */
int verbs_error(int code, const char *address, const char *what);
/* READs under way at once: as an address says (0: it does not), no more than the device has. */
uint8_t verbs_reads(uint32_t said, uint32_t usual, int device);

/* -- a lost device ------------------------------------------------------------------------------
 */

/* Marked when the device reports that it is lost. */
struct verbs_async {
	struct verbs_async *next, **link;
	const struct ibv_context *device;
	_Atomic bool lost;
};

/* Once the device is used by its owner. */
void verbs_async_watch(struct verbs_async *, const struct ibv_context *);
/* Before the device is left. Takes a zeroed async. */
void verbs_async_unwatch(struct verbs_async *);
bool verbs_async_lost(const struct verbs_async *);
/* Takes the events of a device and marks every async of a lost one. Never waits: does nothing while
 * another thread is in it. */
void verbs_async_take(struct ibv_context *);

/* -- what may be read ---------------------------------------------------------------------------
 */

/* Memory that peers of a domain may READ; held by each exposure of it. */
struct verbs_registration {
	struct verbs_registration *next, **link;
	const void *memory;
	struct ibv_mr *mr;
	unsigned int users;
	bool retired; /* it gets no new users (D2) */
};

struct verbs_domain {
	struct verbs_domain *next, **link;
	struct ibv_context *device;
	uint32_t realm;
	struct ibv_pd *pd;
	unsigned int users;
	struct verbs_registration *registrations;
};

/* The domain of a device and a realm, made when it is not there yet; NULL with errno. */
struct verbs_domain *verbs_domain_use(struct fabric_common *, struct ibv_context *, uint32_t realm);
/* When all that was made in it for this user is gone. */
void verbs_domain_leave(struct verbs_domain *);
/* Memory's registration for remote READ alone, the one that is there or a new one; NULL with errno.
 */
struct verbs_registration *verbs_registration_use(struct verbs_domain *, void *memory,
						  size_t bytes);
/* The memory is about to be unmapped: who has the key can read on until all users left. */
void verbs_registration_retire(struct verbs_registration *);
void verbs_registration_leave(struct verbs_registration *);

/* How an accept and a reject carry our bytes: a mark, then their length (accept) or a code
 * (reject), since some link layers pad what they carry with zeros. */
struct verbs_private_data {
	uint16_t mark;
	uint16_t number;
	uint8_t body[FABRIC_WELCOME_BYTES];
};
#define VERBS_MARK                0x4254 /* "TB" */
#define VERBS_PRIVATE_DATA_HEADER 4
static_assert(VERBS_PRIVATE_DATA_HEADER + FABRIC_REASON_BYTES <= 148, "private data of a reject");
static_assert(sizeof(struct verbs_private_data) <= 196, "private data of an accept");

/* An accept's: 0, or -EPROTO: not one of ours. */
int private_data_welcome(const uint8_t *data, size_t bytes, struct verbs_private_data *);
/* A reject's: an errno value and words that may be printed; 0: nothing of ours is in it. */
int private_data_refusal(const uint8_t *data, size_t bytes, char why[FABRIC_REASON_BYTES + 1]);

/* -- one connection -----------------------------------------------------------------------------
 *
 * C1  At most VERBS_CREDITS messages are sent beyond those that the other side said it took. Each
 *     side posts that many receives and some more for frames that only say what was taken, so no
 *     SEND ever waits for a receive. What has no credit waits in a backlog of bounded bytes.
 * C2  READs finish in the order in which they were posted, and so do SENDs; but a SEND may be said
 *     to be finished before an earlier READ is (Soft-iWARP does). A completion of READ n finishes
 *     the READs before it, so only the last one of a list asks for one.
 * C3  Receives are posted again by verbs_channel_take only: what is collected in one go is bounded
 *     by the queues, whatever the other side sends. */

struct verbs_frame {
	uint32_t taken; /* messages its sender took so far */
	uint32_t zero;
	uint8_t body[FABRIC_MESSAGE_BYTES];
};
static_assert(offsetof(struct verbs_frame, body) == VERBS_FRAME_HEADER, "as it crosses the wire");

struct verbs_channel {
	struct rdma_cm_id *id;
	struct ibv_cq *cq;
	struct ibv_qp *qp; /* NULL: broken off, nothing lands any more */
	struct ibv_mr *mr;
	struct verbs_frame *frames; /* receives, then sends */

	/* The send queue. */
	uint64_t tags[VERBS_READS]; /* of READs under way */
	uint64_t reads_posted, reads_finished;
	uint32_t sends_posted, sends_finished;
	bool probing;
	struct fabric_completion done[VERBS_READS]; /* and not collected yet */
	uint32_t done_first, done_count;

	/* Messages. */
	uint32_t sent, acknowledged; /* by the other side */
	uint32_t taken, told;
	struct {
		uint16_t frame;
		uint32_t bytes;
	} arrived[VERBS_RECEIVES];
	uint32_t arrived_first, arrived_count;
	uint8_t *backlog;
	size_t backlog_used;

	int broken; /* 0 or an errno value: the first thing that went wrong, and its words */
	char why[128];
};

/* Makes the queue pair of an id that has a device. 0 or -errno with words. */
int verbs_channel_open(struct verbs_channel *, struct rdma_cm_id *, struct ibv_pd *,
		       struct ibv_comp_channel *, void *owner);
/* Ends the queue pair: nothing lands after it, READs that were under way are done with an error. */
void verbs_channel_break(struct verbs_channel *);
/* Takes a zeroed one and a half-built one. */
void verbs_channel_close(struct verbs_channel *);
/* Collects completions, bounded. Whether it is broken is in `broken` afterwards. */
void verbs_channel_progress(struct verbs_channel *);
/* The next message that arrived: its length, 0 none. */
size_t verbs_channel_take(struct verbs_channel *, uint8_t message[FABRIC_MESSAGE_BYTES]);
/* 0; -EAGAIN the backlog is full; -ENOTCONN. */
int verbs_channel_send(struct verbs_channel *, const void *message, size_t bytes);
/* Whether the other side's device still answers: a WRITE of nothing, which needs no permission and
 * no receive. An answer that does not come breaks the channel by itself. */
void verbs_channel_probe(struct verbs_channel *);
/* For iWARP, which cannot be probed: sends a keep-alive, unless half of the credit is used. The
 * other half is for messages that a stopped subscriber may still have to take. */
void verbs_channel_keep_alive(struct verbs_channel *, const void *message, size_t bytes);
/* READs that are under way or done and not collected yet. */
unsigned int verbs_channel_reads(const struct verbs_channel *);
/* Posts a list of READs with one doorbell; the number or -errno. With those that
 * verbs_channel_reads tells they are VERBS_READS at most. */
int verbs_channel_read(struct verbs_channel *, struct ibv_send_wr *list, const uint64_t *tags,
		       unsigned int count);

/* -- notices ------------------------------------------------------------------------------------
 */

#define VERBS_COLLECT 16

struct verbs_announcer {
	struct announcer base;
	struct verbs_group *group;
	struct verbs_announcer *next;
	atomic_flag busy;
	struct rdma_cm_id *id;
	struct ibv_cq *cq;
	struct ibv_qp *qp; /* NULL: not now */
	struct ibv_mr *mr;
	char *buffers;
	size_t bytes; /* of each */
	uint32_t inline_bytes;
	uint64_t posted, finished;
	bool failed;                 /* a send did, and nothing is sent any more */
	int socket;                  /* -1: none */
	uint64_t pause_ms, again_ms; /* when it could not be had: it is tried then */
};

/* A group that a listener's notices go to. */
struct verbs_group {
	struct verbs_group *next;
	struct fabric_notices asked;
	enum fabric_notices_kind kind; /* as it is now; NONE while the device is away */
	uint32_t bytes;
	const struct address *address;
	struct rdma_event_channel *events;
	struct rdma_cm_id *id; /* the member */
	bool send_only;
	struct ibv_pd *pd;
	struct ibv_ah *ah; /* NULL: not joined yet */
	uint32_t qp_num, qkey;
	struct verbs_announcer *announcers;
	struct verbs_announcer *round; /* who is looked at next; NULL: all were */
	bool failing, failed;          /* a sender did in this round, in the one before */
	int lost;    /* why it is not joined, as it was told last: an errno value, or 0 */
	int missing; /* why a sender could not be had, likewise */
	uint64_t tried_ms;
};

/* Begins to join what was asked for; the event that ends it goes to verbs_group_event. -errno: no
 * notices. The senders are started by verbs_group_mend. */
int verbs_group_open(struct verbs_group *, struct rdma_cm_id *listening, struct ibv_pd *,
		     struct rdma_event_channel *, const struct address *);
/* Stops the senders, which live on and start again with the group. Takes a zeroed one. */
void verbs_group_close(struct verbs_group *);
/* An event of the group's id: 0, or -errno with words: there are no notices. */
int verbs_group_event(struct verbs_group *, const struct verbs_event *);
/* Whether what is sent to it leaves. */
bool verbs_group_ready(const struct verbs_group *);
/* Starts the senders that are not, once the group is joined, and those anew whose queue pair
 * failed, as when there was no route to the group for a moment: one a call, in rounds that go on
 * while `round` says so, whether it could be had or not. 1 when the first of a round had failed and
 * none had in the round before, 0, or -errno with words: one cannot be had, which costs the others
 * nothing. It is tried again after a pause that grows. */
int verbs_group_mend(struct verbs_group *);
/* Whether all senders of a group that is joined are there. */
bool verbs_group_whole(const struct verbs_group *);
/* -errno with the sender: it is tried again by verbs_group_mend. */
int verbs_announcer_open(struct verbs_group *, size_t bytes, struct verbs_announcer **);

/* A group that is received. */
struct verbs_member {
	enum fabric_notices_kind kind; /* NONE: a free place */
	struct sockaddr_storage where;
	int socket; /* UDP */
};

/* One queue pair for all groups of UD, a socket for each of UDP. */
struct verbs_receiver {
	struct rdma_cm_id *id;
	struct ibv_cq *cq; /* NULL: no group of UD was joined yet */
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	char *buffers;
	uint32_t count;
	struct ibv_wc wc[VERBS_COLLECT]; /* collected, not taken yet */
	unsigned int wc_at, wc_count;
	struct verbs_member members[BOUND_NOTICE_GROUPS_MAX];
	uint32_t used;    /* no member from here on was ever joined */
	uint32_t sockets; /* of members */
	uint32_t turn;    /* whose socket is looked at next */
};

/* What receivers of a link are made of. */
struct verbs_receive {
	struct rdma_event_channel *events;
	struct ibv_pd *pd;
	struct ibv_comp_channel *completions;
	struct sockaddr_storage local;
	uint32_t count; /* of datagrams that may wait */
};

/* Begins to join a group: its member, or NULL with errno and words. */
struct verbs_member *verbs_receiver_join(struct verbs_receiver *, const struct verbs_receive *,
					 const struct fabric_notices *);
/* Takes one that is not joined. */
void verbs_receiver_leave(struct verbs_receiver *, const struct sockaddr_storage *where);
/* An event of the receiver's id: a group that failed is left. */
void verbs_receiver_event(struct verbs_receiver *, const struct verbs_event *);
/* Takes a zeroed one. */
void verbs_receiver_close(struct verbs_receiver *);
bool verbs_receiver_has(struct verbs_receiver *);
/* A datagram's length, or 0. Where the queue pair ended, its groups are left. */
size_t verbs_receiver_take(struct verbs_receiver *, void *datagram, size_t room);

/* The operations, in the files above. */
void verbs_notices(const struct listener *, const struct sockaddr_storage *group,
		   struct fabric_notices *);
int verbs_announcer(struct listener *, const struct sockaddr_storage *group, size_t bytes,
		    struct announcer **);
void verbs_announcer_close(struct announcer *);
int verbs_announce(struct announcer *, const void *datagram, size_t bytes);
int verbs_receive(struct link *, const struct fabric_notices *);
void verbs_receive_end(struct link *, const struct fabric_notices *);
size_t verbs_datagram(struct link *, void *datagram, size_t room);
int verbs_node(const char *address);
int verbs_listen(struct listener **, const struct fabric_listen *, const struct listener_calls *,
		 void *user);
int verbs_listener_fd(const struct listener *);
int verbs_listener_poll(struct listener *);
void verbs_listener_close(struct listener *);
int verbs_expose(struct listener *, const struct memory *, uint32_t realm, struct exposure **);
void verbs_withdraw(struct exposure *);
struct fabric_key verbs_key(const struct exposure *);
int verbs_send(struct peer *, const void *message, size_t bytes, struct exposure *given);

int verbs_connect(struct link **, const char *address, const void *hello, size_t bytes,
		  const struct link_calls *, void *user);
enum link_state verbs_link_state(const struct link *);
int verbs_link_fd(const struct link *);
int verbs_link_poll(struct link *);
int verbs_link_send(struct link *, const void *message, size_t bytes);
void verbs_link_break(struct link *);
void verbs_link_close(struct link *);
int verbs_remote_open(struct link *, struct fabric_key, uint64_t bytes, struct remote **);
void verbs_remote_close(struct remote *);
const void *verbs_view(const struct remote *);
void *verbs_landing(struct link *, size_t bytes);
void verbs_landing_free(struct link *, void *, size_t bytes);
unsigned int verbs_depth(const struct link *);
int verbs_read(struct link *, const struct fabric_read *, unsigned int count);
int verbs_reap(struct link *, struct fabric_completion *, unsigned int max);
int verbs_sleep(struct link *);

extern const struct fabric_ops verbs_ops;

#endif
