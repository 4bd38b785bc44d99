/* SPDX-License-Identifier: Apache-2.0 */
/* The publisher: offers topics on a bus and writes their records.
 *
 * Errors   0 or a count, or -errno; tb_error() has the message.
 * Threads  One thread at a time calls tb_publisher_open, tb_publisher_begin, tb_topic_create,
 *          tb_group_create, tb_topic_end and tb_publisher_close. One thread writes a topic: it
 *          calls tb_instrument, tb_publish, tb_flush and tb_topic_quality. Each topic may have
 *          another thread. The library's control thread answers subscribers; writing threads
 *          never wait for it.
 * Memory   tb_topic_create allocates a topic's memory and touches its pages; publishing allocates
 *          nothing. Options, names and schemas are copied.
 * Lifetime A topic lives until its publisher is closed. A forked child must not use what its parent
 *          opened; only tb_publisher_close is allowed there, and does nothing. */
#ifndef TICKBUS_PUBLISHER_H
#define TICKBUS_PUBLISHER_H

#include <stddef.h>
#include <stdint.h>

#include "tickbus/counters.h"
#include "tickbus/error.h"
#include "tickbus/record.h"
#include "tickbus/schema.h"
#include "tickbus/ticket.h"

#ifdef __cplusplus
extern "C" {
#endif

struct tb_publisher;
struct tb_topic;
struct tb_group;

/* The bus logs an error only if it lost an address of shared memory. Its lock and its socket were
 * removed, and another publisher has the address. No subscriber can connect to this bus any more.
 * The program should end. */
enum tb_log_level { TB_LOG_ERROR = 1, TB_LOG_WARNING, TB_LOG_INFO, TB_LOG_DEBUG };

/* Called on the control thread and on threads that call the library. The bus makes no progress
 * meanwhile: a handler must not wait, and must not call its own publisher. It must return: left by
 * longjmp or an exception, the bus stands still for ever. */
typedef void tb_log_handler(void *user, enum tb_log_level level, const char *words);

/* How notices, the datagrams that announce new records, travel over networks. Shared memory needs
 * no notices. */
enum tb_notice {
	TB_NOTICE_AUTO = 0, /* UD multicast, or UDP where a device has no UD */
	TB_NOTICE_NONE,     /* no notices: subscribers poll or ask for a wake-up */
	TB_NOTICE_UD,
	TB_NOTICE_UDP,
};

/* A realm is a set of topics for subscribers that know its ticket. Topics of other realms do not
 * exist for them. */
struct tb_realm {
	size_t size;           /* sizeof(struct tb_realm), in each element of an array */
	const char *name;      /* unique; the same form as the name of a bus */
	const uint8_t *ticket; /* TB_TICKET_BYTES, unique. NULL: the realm of subscribers without a
				* ticket; its name must be "anonymous" */
	const char *const *topics; /* patterns as in tb_subscribe, 1 to 256 */
	size_t topic_count;
	uint32_t subscribers_max; /* connections of this realm to each address, 1 to 65,536.
				   * Default: three quarters of the bus's subscribers_max, rounded
				   * up; all if the bus has one realm */
};

/* A processor or node number for the options cpu and numa, in which 0 means "not set". */
#define TB_ON(number) ((uint32_t)(number) + 1)

/* Subscribers get no answer before tb_publisher_begin. So all topics can be created before the
 * first subscriber asks for them. */
#define TB_PUBLISHER_HELD 0x1u

struct tb_publisher_options {
	size_t size;               /* sizeof(struct tb_publisher_options) */
	const char *name;          /* of the bus, 1 to 63 bytes of [A-Za-z0-9._-], not beginning
				    * with '.'; required */
	const char *const *listen; /* addresses, "shm:NAME" or "rdma:HOST:PORT", at most 8.
				    * NULL: "shm:" and the name */
	size_t listen_count;
	const char *const *users; /* users that may connect over shared memory, at most 256. The
				   * publisher's own user and root always may */
	size_t user_count;
	const char *const *groups; /* groups that may connect over shared memory, at most 256 */
	size_t group_count;
	uint32_t stale_ms;        /* stale bound sent to subscribers, 20 to 60,000. Default 1,000 */
	uint32_t topics_max;      /* 1 to 1,024. Default 256 */
	uint32_t subscribers_max; /* connections to each address, 1 to 65,536. Default 1,024 */
	uint32_t exit_wait_ms;    /* how long closing waits for subscribers to read ended topics.
				   * Default 5,000. UINT32_MAX: not at all */
	tb_log_handler *log;      /* NULL: no log */
	void *user;               /* passed to log */
	const char *multicast;    /* the bus's notice group, "GROUP:PORT". NULL: made of the name */
	uint32_t notice;          /* enum tb_notice */
	uint32_t notice_bytes;    /* maximum notice size, 256 to 4,096, limited by the path MTU.
				   * Default 1,024 */
	const struct tb_realm *realms; /* at most 32. NULL: every subscriber that connects sees all
					* topics, and a ticket is refused. With realms, a subscriber
					* without a ticket needs a realm "anonymous" */
	size_t realm_count;
	uint32_t cpu;   /* TB_ON(processor) to which the control thread is pinned. 0: any
			 * processor near the node */
	uint32_t numa;  /* TB_ON(NUMA node) of the topics' memory; the control thread runs near
			 * it. 0: the node of the first RDMA address's device, or any node if
			 * that is unknown */
	uint32_t flags; /* TB_PUBLISHER_... */
	uint32_t subscribers_per_host; /* connections of one host to each address, 1 to 65,536. A
					* host is an IP address, over shared memory a user.
					* Default: three quarters of subscribers_max, rounded up */
};

/* Flags of a topic. Subscribers of a watched topic get a stale event when its writer made no call
 * of tb_flush or tb_instrument for the stale bound. A tb_publish that flushes counts. */
#define TB_TOPIC_UNCHECKED     0x1u /* no checksum in its records: shared memory only */
#define TB_TOPIC_NO_LAST_VALUE 0x2u /* no last-value cache */
#define TB_TOPIC_MANUAL_FLUSH  0x4u /* tb_publish flushes once in min(slots / 8, 1,024) records */
#define TB_TOPIC_WATCHED       0x8u
/* The writer sets TB_FLAG_LAST on the last record of each input message, and on each record outside
 * input messages. Subscribers can then cut between messages: an image completes there. Without this
 * flag each record is a message. */
#define TB_TOPIC_MARKS_MESSAGES 0x10u

struct tb_topic_options {
	size_t size;                    /* sizeof(struct tb_topic_options) */
	const char *name;               /* parts of [a-z0-9_-] with dots between, 1 to 63 bytes */
	const struct tb_schema *schema; /* of the payload; required */
	uint32_t slots;         /* records held, a power of two, 64 to 2^24. Default 65,536 */
	uint32_t instruments;   /* capacity of the directory, 1 to 2^20. Default 16,384 */
	uint32_t flags;         /* TB_TOPIC_... */
	const char *multicast;  /* its own notice group, "GROUP:PORT". NULL: the bus's */
	uint64_t fingerprint;   /* of the struct that the program publishes, NAME_FINGERPRINT in its
				 * header; must equal the schema's. 0: not checked */
	struct tb_group *group; /* the topic belongs to this group of its publisher. NULL: to no
				 * group */
};

struct tb_update {
	size_t size;         /* sizeof(struct tb_update) */
	uint32_t instrument; /* index from tb_instrument */
	uint8_t kind;        /* enum tb_kind, or 128 to 255 */
	uint8_t flags;       /* TB_FLAG_LAST, and TB_FLAG_PAST in a correction */
	uint16_t length;     /* bytes at data, at most the schema's */
	uint64_t time_ns;    /* nanoseconds since 1970 UTC. 0: now, which costs a clock read */
	const void *data;    /* the payload. May be NULL only if length is 0. Not checked if time_ns
			      * is set and length is the schema's */
};

/* Opens the bus and listens at its addresses.
 *
 * -EINVAL: options. -EADDRINUSE: another publisher has an address, or the list has it twice.
 * -EACCES: no permission for the socket or its folder. -ENOENT: a user, a group or the folder does
 * not exist. -ENOMEM, -EMFILE: short of memory or descriptors. */
TB_API int tb_publisher_open(struct tb_publisher **publisher,
			     const struct tb_publisher_options *options);

/* Starts answering subscribers; those that connected earlier wait. Has an effect with
 * TB_PUBLISHER_HELD only. Topics may be added before and after. -ENOMEM, -ENOSPC: as epoll_ctl. */
TB_API int tb_publisher_begin(struct tb_publisher *publisher);

/* Adds a topic, empty, in a new epoch.
 *
 * -EINVAL: options, or a schema with another fingerprint. -EEXIST: the name is taken. -ENOSPC: the
 * bus has topics_max topics, or 64 notice groups. -ENOMEM: the message has the bytes asked for. */
TB_API int tb_topic_create(struct tb_publisher *publisher, const struct tb_topic_options *options,
			   struct tb_topic **topic);

/* The index of an instrument, 0 and up. Adds a new name to the directory, and then flushes. Names
 * have 1 to 24 bytes.
 *
 * -EINVAL: the name. -ENOSPC: the directory is full. -ESHUTDOWN: a new name, and the topic has
 * ended. */
TB_API int tb_instrument(struct tb_topic *topic, const char *name);

/* Writes one record.
 *
 * -EINVAL: instrument, kind, length or data, or no update. -ESHUTDOWN: the topic has ended. */
TB_API int tb_publish(struct tb_topic *topic, const struct tb_update *update);

/* Makes all records written so far known to readers: moves the head, and wakes sleepers. Needed
 * with TB_TOPIC_MANUAL_FLUSH only. Writes the progress line, makes one system call if a subscriber
 * sleeps, and sends one notice for each network address. */
TB_API int tb_flush(struct tb_topic *topic);

/* The sequence of the last record written, 0 if there is no record. Call it on the writing
 * thread. */
TB_API uint64_t tb_topic_sequence(const struct tb_topic *topic);

/* Counts a record of this instrument that could not be published, for instance because the
 * directory is full. `tickbus stat` shows the counts by name. Any thread. */
TB_API void tb_topic_unpublished(struct tb_topic *topic, const char *name);

/* States the quality of a topic from here on: enum tb_quality, and why, enum tb_quality_cause or
 * 128 to 255. Writes a record of kind quality, which subscribers get as an event at its place, and
 * flushes. Subscribers that join later or were lapped learn the state from the progress line. If
 * the topic has this state and cause already, only flushes. A new topic, and each epoch, begins
 * good. Call it on the writing thread; in a topic that marks messages, between messages.
 *
 * -EINVAL: an unknown state, or a cause that is reserved or above 255. -ESHUTDOWN: the topic has
 * ended. */
TB_API int tb_topic_quality(struct tb_topic *topic, uint32_t state, uint32_t cause);

/* Ends a topic: flushes, and announces to subscribers that no more records come. Call it on the
 * writing thread, or after that thread has stopped writing. */
TB_API int tb_topic_end(struct tb_topic *topic);

/* Restarts a topic: empty directory and memory, a new epoch, sequences from 1. Subscribers get a
 * restart event. Call it on the writing thread. After -ENOMEM the topic is as it was. */
TB_API int tb_topic_restart(struct tb_topic *topic);

/* -- groups ---------------------------------------------------------------------------------------
 *
 * The records of a group's topics have one order, which subscribers can merge by (TB_MERGE). One
 * thread writes all topics of a group and makes these calls. The library stamps the records. All
 * records of a message have one time. Times rise from message to message by at least 1 ns. They are
 * at most 1 s ahead of the clock: see tb_group_message for a clock that is set back. In a topic of
 * a group
 *
 * - tb_update's time_ns must be 0, and a message must be open: else tb_publish returns -EINVAL;
 * - tb_publish never flushes by itself, except that a full step of the ring moves the head;
 *   tb_flush returns -EINVAL, call tb_group_flush;
 * - tb_topic_quality needs an open message, and does not flush;
 * - tb_topic_end and tb_topic_restart finish the open message and flush the group first;
 * - tb_topic_create adds the topic to the group: call it on the group's writing thread, or while
 *   that thread makes no call. */

struct tb_group_options {
	size_t size;      /* sizeof(struct tb_group_options) */
	const char *name; /* for messages; the same form as the name of a bus; unique; required */
};

/* Adds a group without topics. It lives until its publisher is closed. Call it on the thread that
 * creates topics.
 *
 * -EINVAL: options. -EEXIST: the name is taken. -ENOSPC: the bus has 1,024 groups. -ENOMEM. */
TB_API int tb_group_create(struct tb_publisher *publisher, const struct tb_group_options *options,
			   struct tb_group **group);

/* Begins a message, and finishes the open message. Reads the clock once. 0, or 1 if the group's
 * times begin again.
 *
 * Times would be more than 1 s ahead of the clock if it was set back. Then all topics of the group
 * that have not ended begin new epochs, as tb_topic_restart does. But their instruments keep
 * their numbers, and their quality stays. Last values are gone until they are published again. A
 * line in the log says so. If memory is short, times rise by 1 ns a message, and the next message
 * after a second tries again. */
TB_API int tb_group_message(struct tb_group *group);

/* Finishes the open message and makes all records written so far known to readers. Writes the
 * progress line of each topic of the group, also of topics without new records. Wakes sleepers of
 * topics that have new records, and sends their notices. Without a message since the last flush it
 * only shows that the writer lives. */
TB_API int tb_group_flush(struct tb_group *group);

/* The time of the open message, else of the last. 0: there was no message. */
TB_API uint64_t tb_group_time(const struct tb_group *group);

/* The number of joins now held: (subscriber, topic) pairs over `topics`. NULL and 0: over all
 * topics. */
TB_API size_t tb_publisher_joins(struct tb_publisher *publisher, struct tb_topic *const *topics,
				 size_t count);

/* Adds a block of the caller's own counters, which `tickbus stat` shows under the feed scope. The
 * caller updates `values`, each with one atomic store of the whole word. `table` describes them;
 * count is 1 to 64. Table and values must live until the publisher is closed. The name is copied.
 * It has 1 to 63 bytes of printable ASCII; names and units in the table are printable ASCII too.
 *
 * -EINVAL: arguments. -ENOSPC: the bus has 64 blocks. */
TB_API int tb_publisher_count(struct tb_publisher *publisher, const char *name,
			      const struct tb_counter *table, const uint64_t *values, size_t count);

/* Changes the ticket of a realm, by any thread. The new ticket, of TB_TICKET_BYTES, is valid at
 * once. The old ticket stays valid for old_valid_ms, at most 86,400,000; with 0 it ends at once. A
 * realm has one old ticket: a further change ends it early. Connections that exist stay. Returns 1,
 * or 0 if this is the realm's ticket already, and then changes nothing.
 *
 * -ENOENT: the bus has no realm of this name. -EINVAL: arguments, or the realm of clients without a
 * ticket. -EEXIST: another realm has this ticket, or had it and still accepts it. */
TB_API int tb_publisher_ticket(struct tb_publisher *publisher, const char *realm,
			       const uint8_t *ticket, uint32_t old_valid_ms);

/* Ends all topics, waits until subscribers have read them to the end and left, at most
 * exit_wait_ms, logs the subscribers that have not, and frees. Takes NULL. */
TB_API void tb_publisher_close(struct tb_publisher *publisher);

#ifdef __cplusplus
}
#endif

#endif
