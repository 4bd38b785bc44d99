/* SPDX-License-Identifier: Apache-2.0 */
/* The publisher: offers topics on a bus and writes their records.
 *
 * Errors   0 or a count, or -errno; tb_error() has the words.
 * Threads  tb_publisher_open, tb_publisher_begin, tb_topic_create, tb_topic_end and
 *          tb_publisher_close by one thread at a time; each topic is written (tb_instrument,
 *          tb_publish, tb_flush) by one thread, which may be another for each topic. One thread of
 *          the library's own answers subscribers; the publishing threads never wait for it.
 * Memory   a topic's memory is allocated, and its pages are there, when it is created; publishing
 *          allocates nothing. Options, names and schemas are copied.
 * Lifetime a topic lives until its publisher is closed. A child that is forked must not call with
 *          what its parent opened, but for tb_publisher_close, which does nothing there. */
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

enum tb_log_level { TB_LOG_ERROR = 1, TB_LOG_WARNING, TB_LOG_INFO, TB_LOG_DEBUG };

/* Called by the library's own thread and by those that call it, while the bus stands still: it must
 * not wait, nor call the publisher that called it. */
typedef void tb_log_handler(void *user, enum tb_log_level level, const char *words);

/* How notices (what changed) travel over networks; shared memory needs none. */
enum tb_notice {
	TB_NOTICE_AUTO = 0, /* UD multicast, or UDP where a device has no UD */
	TB_NOTICE_NONE,     /* not at all: subscribers look by themselves */
	TB_NOTICE_UD,
	TB_NOTICE_UDP,
};

/* Who may read what: those who show the ticket of a realm see the topics of that realm, and nothing
 * else is there for them. */
struct tb_realm {
	size_t size;           /* sizeof(struct tb_realm), in each of an array */
	const char *name;      /* as that of a bus, each once */
	const uint8_t *ticket; /* TB_TICKET_BYTES, of each realm another one. NULL: those who show
				* none are in it, and its name has to be "anonymous" */
	const char *const *topics; /* patterns, as tb_subscribe has them; 1 to 256 */
	size_t topic_count;
};

/* A number that may be 0, where 0 means that none is asked for. */
#define TB_ON(number) ((uint32_t)(number) + 1)

/* Nobody who connects is answered before tb_publisher_begin: so nobody finds half of the topics, or
 * is told that there is none of a name that is yet to come. */
#define TB_PUBLISHER_HELD 0x1u

struct tb_publisher_options {
	size_t size;               /* sizeof(struct tb_publisher_options) */
	const char *name;          /* of the bus, 1 to 63 bytes of [A-Za-z0-9._-]; required */
	const char *const *listen; /* addresses, each "shm:NAME" or "rdma:HOST:PORT"; NULL: one,
				    * "shm:" and the name */
	size_t listen_count;
	const char *const *users; /* names of users that may connect beside our own and root */
	size_t user_count;
	const char *const *groups;
	size_t group_count;
	uint32_t stale_ms;        /* stale bound told to subscribers; 0: 1,000; 20 to 60,000 */
	uint32_t topics_max;      /* 0: 256; at most 1,024 */
	uint32_t subscribers_max; /* connections to each address; 0: 1,024; at most 65,536 */
	uint32_t exit_wait_ms;    /* how long close serves subscribers that have not read to the end
				   * of ended topics; 0: 5,000; UINT32_MAX: not at all */
	tb_log_handler *log;      /* NULL: nothing is logged */
	void *user;
	const char *multicast; /* "GROUP:PORT" that notices go to; NULL: made of the name */
	uint32_t notice;       /* enum tb_notice */
	uint32_t notice_bytes; /* of the longest notice; 0: 1,024; 256 to 4,096; the path MTU at
				  most */
	const struct tb_realm *realms; /* at most 32; NULL: all topics are for anyone who connects,
					* without a ticket. Where realms are named, who shows no
					* ticket is refused if none of them is "anonymous" */
	size_t realm_count;
	uint32_t cpu;   /* TB_ON(the processor that the library's thread stays on); 0: any
			 * near the node */
	uint32_t numa;  /* TB_ON(the NUMA node that topics' memory is taken from, and that the
			 * library's thread runs near); 0: that of the device of the first
			 * RDMA address, or any where that is not known */
	uint32_t flags; /* TB_PUBLISHER_... */
};

/* Flags of a topic.
 *
 * Subscribers of a watched topic are told stale when its writer made no call of tb_flush or
 * tb_instrument for the stale bound (tb_publish counts where it flushes by itself). */
#define TB_TOPIC_UNCHECKED     0x1u /* no check in the records: shared memory subscribers only */
#define TB_TOPIC_NO_LAST_VALUE 0x2u /* no last-value cache */
#define TB_TOPIC_MANUAL_FLUSH  0x4u /* tb_publish does not flush by itself, but for full steps */
#define TB_TOPIC_WATCHED       0x8u

struct tb_topic_options {
	size_t size;      /* sizeof(struct tb_topic_options) */
	const char *name; /* parts of [a-z0-9_-] with dots between; at most 63 bytes */
	const struct tb_schema *schema; /* of the payload; required */
	uint32_t slots;                 /* records kept: a power of two, 64 to 2^24; 0: 65,536 */
	uint32_t instruments;           /* capacity of the directory, 1 to 2^20; 0: 16,384 */
	uint32_t flags;                 /* TB_TOPIC_... */
	const char *multicast;          /* "GROUP:PORT" that its notices go to; NULL: the bus's */
};

struct tb_update {
	size_t size;         /* sizeof(struct tb_update) */
	uint32_t instrument; /* from tb_instrument */
	uint8_t kind;        /* enum tb_kind, or 128 and up */
	uint8_t flags;       /* TB_FLAG_... */
	uint16_t length;     /* bytes at data, at most the schema's */
	uint64_t time_ns;    /* nanoseconds since 1970 UTC; 0: now, at the price of a clock read */
	const void *data;    /* may be NULL where length is 0, and nowhere else: not looked at where
			      * time_ns is given and length is the schema's */
};

/* Opens the bus and listens.
 * -EINVAL options; -EADDRINUSE another publisher has an address, or one is listed twice; -EACCES,
 * -ENOENT the address's place; -ENOMEM, -EMFILE. */
TB_API int tb_publisher_open(struct tb_publisher **publisher,
			     const struct tb_publisher_options *options);

/* Answers those who connect, from here on: who came before waits as long as it likes. Of use with
 * TB_PUBLISHER_HELD alone; topics may be added before and after. -ENOMEM, -ENOSPC: as epoll_ctl. */
TB_API int tb_publisher_begin(struct tb_publisher *publisher);

/* Adds a topic, empty, in a new epoch. -EINVAL; -EEXIST the name is taken; -ENOSPC topics_max or 64
 * groups are there; -ENOMEM with the bytes asked for. */
TB_API int tb_topic_create(struct tb_publisher *publisher, const struct tb_topic_options *options,
			   struct tb_topic **topic);

/* The index of an instrument, created on first use: 0 and up. -EINVAL name; -ENOSPC the directory
 * is full. */
TB_API int tb_instrument(struct tb_topic *topic, const char *name);

/* Writes one record. 0, or -EINVAL: instrument, kind or length; -ESHUTDOWN: the topic ended. */
TB_API int tb_publish(struct tb_topic *topic, const struct tb_update *update);

/* Makes all records written so far known: head, wake-ups. Needed with TB_TOPIC_MANUAL_FLUSH only;
 * costs one line's write, and one system call when somebody sleeps. */
TB_API int tb_flush(struct tb_topic *topic);

/* The sequence of the last record written. By the writing thread. */
TB_API uint64_t tb_topic_sequence(const struct tb_topic *topic);

/* Counts a record that could not be published, for instance because its instrument did not fit the
 * directory; `tickbus stat` shows them by name. */
TB_API void tb_topic_unpublished(struct tb_topic *topic, const char *name);

/* No more records: flushes, and tells subscribers that this is the end. By the writing thread, or
 * after it stopped. */
TB_API int tb_topic_end(struct tb_topic *topic);

/* Begins again: the directory and the memory are empty, the epoch new, sequences from 1;
 * subscribers are told (restart). By the writing thread. -ENOMEM leaves the topic as it was. */
TB_API int tb_topic_restart(struct tb_topic *topic);

/* Joins now held: (subscriber, topic) pairs over `topics`, which may be NULL with count 0 for all.
 */
TB_API size_t tb_publisher_joins(struct tb_publisher *publisher, struct tb_topic *const *topics,
				 size_t count);

/* A block of counters that `tickbus stat` shows under the feed scope: table says what each of the
 * `count` (1 to 64) words means, which the caller goes on counting in, each with one atomic store
 * of the whole word. Table and words must live until the publisher is closed; name is copied, 1 to
 * 63 bytes of printable ASCII, as names and units in the table are. -EINVAL; -ENOSPC: 64 blocks are
 * there. */
TB_API int tb_publisher_count(struct tb_publisher *publisher, const char *name,
			      const struct tb_counter *table, const uint64_t *values, size_t count);

/* Ends topics that have not ended, serves subscribers until they have read to the end and left or
 * exit_wait_ms passed, logs who was left, frees. Takes NULL. */
TB_API void tb_publisher_close(struct tb_publisher *publisher);

#ifdef __cplusplus
}
#endif

#endif
