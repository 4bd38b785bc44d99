/* SPDX-License-Identifier: Apache-2.0 */
/* The subscriber: reads topics of one bus, at its own pace.
 *
 * Errors   0 or a count, or -errno; tb_error() has the words.
 * Threads  a subscriber, with its subscriptions, is used by one thread at a time; any number of
 *          subscribers in a process. No thread is made.
 * Memory   everything is allocated in open, subscribe and when a topic is joined, up to the bounds
 *          in the options; polling allocates nothing. Options and strings are copied. Memory
 *          that READs land in is touched first, and so placed by the kernel, on the thread that
 *          calls: in tb_subscriber_open, tb_subscribe, and tb_poll where a topic is joined later.
 *          A caller that runs near the device has it there.
 * Lifetime a subscription ends with tb_unsubscribe or its subscriber; both may be called from a
 *          handler and then take effect when the handler returns. A child that is forked must not
 *          call with what its parent opened, but for these two, which do nothing there. */
#ifndef TICKBUS_SUBSCRIBER_H
#define TICKBUS_SUBSCRIBER_H

#include <stddef.h>
#include <stdint.h>

#include "tickbus/error.h"
#include "tickbus/record.h"
#include "tickbus/schema.h"
#include "tickbus/ticket.h"

#ifdef __cplusplus
extern "C" {
#endif

struct tb_subscriber;
struct tb_subscription;

/* A flag of both option structures: what is not there yet is waited for, and is no error; so is
 * memory or a descriptor that the publisher lacks. The call returns 0, and tb_error() says what it
 * waits for, "" where that is nothing. */
#define TB_WAIT 0x1u

struct tb_subscriber_options {
	size_t size;           /* sizeof(struct tb_subscriber_options) */
	const char *address;   /* "shm:NAME" or "rdma:HOST:PORT"; required */
	uint32_t flags;        /* TB_WAIT: open at once and connect when the publisher is there */
	uint32_t connect_ms;   /* how long open and subscribe may take; 0: 1,000; at most 60,000 */
	uint32_t stale_ms;     /* stale bound; 0: the publisher's own; 20 to 60,000 */
	uint32_t topics_max;   /* topics joined at once; 0: 256; at most 1,024 */
	uint32_t batch_bytes;  /* memory that reads of one topic land in; 0: 65,536; 8,192 to 16 MiB
				*/
	uint32_t read_bytes;   /* of one read, in whole slots, at least one; 0: 8,192, or a 32nd of
				* batch_bytes where that is more; from that 32nd to batch_bytes */
	const uint8_t *ticket; /* TB_TICKET_BYTES, of the realm whose topics are read; NULL: none
				* is shown */
};

/* Of a subscription: records READ over a network are delivered only when a READ of the progress
 * line before and one after show that their slots were not touched meanwhile: no check's word is
 * taken for it. Costs one more READ for each batch; without a network the check is not needed at
 * all. */
#define TB_STRICT 0x2u

/* Where a subscription begins in a topic. */
enum tb_from {
	TB_FROM_NEWEST = 0, /* with the first record published after the join */
	TB_FROM_OLDEST,     /* with the first record held; earlier ones are a gap: before_join */
	TB_FROM_SEQUENCE,   /* with (epoch, sequence); epoch 0: whichever is now */
};

enum tb_cause {
	TB_CAUSE_OVERRUN = 1, /* overwritten before this subscriber read them */
	TB_CAUSE_BEFORE_JOIN, /* overwritten before this subscriber joined */
	TB_CAUSE_UPSTREAM,    /* the publisher itself never got them */
	TB_CAUSE_CORRUPT,     /* never could be read whole, though they should be there */
};

enum tb_event_kind {
	TB_EVENT_APPEARED = 1, /* the topic was joined: epoch, first (to be delivered next) */
	TB_EVENT_GAP,          /* records first to last are lost: cause */
	TB_EVENT_STALE,   /* no sign of life from the publisher within the stale bound; or none from
			   * the writer of a watched topic; or how far it is could not be read.
			   * Once more with code and words where the publisher is there and has
			   * no room for us (EUSERS, EAGAIN), its socket is closed to us (EACCES)
			   * or it has no such topic (ENOENT) */
	TB_EVENT_LIVE,    /* it is there again, in the same epoch. Both are about the pulse: what is
			   * held is delivered meanwhile, so records may come before it */
	TB_EVENT_RESTART, /* a new epoch: old_epoch, delivered, head tell where the old one was
			   * left. Epochs that came and went between two looks are not told one by
			   * one: what is delivered and lost adds up within an epoch */
	TB_EVENT_ENDED,   /* the topic ended and was read to its end: head */
	TB_EVENT_REFUSED, /* the publisher or the schema refuses: code, words; again whenever the
			   * bus's topics change. For want of memory or descriptors once, until it
			   * works or the words change; of a connection (its ticket, say) once, with
			   * the pattern */
};

struct tb_event {
	size_t size; /* of this structure, as the library fills it; grows at its end */
	enum tb_event_kind kind;
	enum tb_cause cause;  /* GAP */
	const char *topic;    /* the topic's name, or the pattern where no topic is meant */
	uint64_t epoch;       /* the topic's epoch now */
	uint64_t old_epoch;   /* RESTART */
	uint64_t first, last; /* GAP: both lost; APPEARED: first */
	uint64_t delivered;   /* the last sequence accounted for (delivered or told as a gap) */
	uint64_t head;        /* the last head known; RESTART: of the old epoch */
	int code;             /* REFUSED: errno value: ENOENT, EACCES, EPROTO, ENOSPC ...; STALE: 0,
			       * or why it stays so */
	const char *words;    /* where there is a code, for a person; valid inside the handler */
};

/* A joined topic, as handlers see it; valid while its subscription is, its schema until RESTART. */
struct tb_source;
TB_API const char *tb_source_topic(const struct tb_source *source);
TB_API const struct tb_schema *tb_source_schema(const struct tb_source *source); /* publisher's */
TB_API uint64_t tb_source_epoch(const struct tb_source *source);

typedef void tb_record_handler(void *user, const struct tb_source *source,
			       const struct tb_record *record);
typedef void tb_event_handler(void *user, const struct tb_event *event);

struct tb_subscription_options {
	size_t size;                  /* sizeof(struct tb_subscription_options) */
	tb_record_handler *on_record; /* required */
	tb_event_handler *on_event;   /* NULL: events are counted only */
	void *user;
	enum tb_from from;
	uint32_t flags;                 /* TB_WAIT: an exact name that is unknown is waited for;
					 * TB_STRICT */
	uint64_t epoch, sequence;       /* TB_FROM_SEQUENCE: sequence from 1 */
	const struct tb_schema *schema; /* what the program was written for, NULL: whatever it is;
					 * must live as long as the subscription */
};

/* Connects to the bus at options->address.
 * -EINVAL options; -ECONNREFUSED nobody listens there; -EACCES no permission, or the ticket is of
 * no realm there, or none was shown and one is asked for; -ETIMEDOUT the publisher does not answer;
 * -EHOSTUNREACH, -ENETUNREACH there is no way there; -ENODEV no RDMA device; -EPROTO it speaks no
 * version that we speak, or refused; -EUSERS it has as many subscribers as it may have; -EAGAIN it
 * lacks memory or descriptors for another; -ENOMEM, -EMFILE here. With TB_WAIT the first of these
 * that can pass by itself is waited out in tb_poll and tb_wait. */
TB_API int tb_subscriber_open(struct tb_subscriber **subscriber,
			      const struct tb_subscriber_options *options);

/* Joins every topic that matches pattern, now and later: parts between dots; `*` matches within one
 * part, a last part `>` all the rest. A pattern without either is one topic's exact name.
 * Topics that appear later, and topics that come back, are joined with an event.
 * -EINVAL pattern or options; -ENOENT exact name unknown (without TB_WAIT); -EPROTO its schema is
 * not compatible with options->schema, in words that name both; -EACCES; -ENOSPC more than
 * topics_max; -ENOMEM, -EMFILE, -ENFILE, -EAGAIN memory or descriptors are short, here or there;
 * -ETIMEDOUT; -ECANCELED a handler ended it meanwhile. What is short there is waited out with
 * TB_WAIT, of the subscriber or of the subscription: the join is asked for with each pulse. With a
 * pattern, a topic that is refused is told by an event, and the others are joined; that nothing
 * matches yet is no error, and tb_error() says so as with TB_WAIT. */
TB_API int tb_subscribe(struct tb_subscriber *subscriber, const char *pattern,
			const struct tb_subscription_options *options,
			struct tb_subscription **subscription);

/* Leaves the topics. Takes NULL. */
TB_API void tb_unsubscribe(struct tb_subscription *subscription);

/* Delivers what there is, at most records_max (1 or more) records, by calling the handlers; never
 * blocks, makes no system call while records flow. (Soft-iWARP alone blocks while a connection is
 * made.) The number of records delivered or told as upstream's, or -errno (-ECANCELED: closed by a
 * handler). The publisher being away is no error: it is told by events. */
TB_API int tb_poll(struct tb_subscriber *subscriber, int records_max);

/* Sleeps until there may be something to poll, at most timeout_ms (-1: for ever). 1: poll; 0: the
 * time is over. -EINTR: a signal came. */
TB_API int tb_wait(struct tb_subscriber *subscriber, int timeout_ms);

/* A descriptor for poll or epoll: readable when tb_poll may have something to do, a due stale event
 * included. From this call on, each tb_poll that finds nothing arms the wake-up, so: wait for the
 * descriptor, then tb_poll until it returns 0. Do not read from it, write to it or close it. */
TB_API int tb_subscriber_fd(struct tb_subscriber *subscriber);

/* Ends everything and frees it. Takes NULL. */
TB_API void tb_subscriber_close(struct tb_subscriber *subscriber);

/* A subscription's counters, in the order of tb_counters(TB_SCOPE_SUBSCRIPTION, &count);
 * as many as fit in max. The number filled. */
TB_API size_t tb_subscription_counters(const struct tb_subscription *subscription, uint64_t *values,
				       size_t max);

#ifdef __cplusplus
}
#endif

#endif
