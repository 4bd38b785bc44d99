/* SPDX-License-Identifier: Apache-2.0 */
/* The subscriber: reads topics of one bus, at its own pace.
 *
 * Errors   0 or a count, or -errno; tb_error() has the message.
 * Threads  One thread at a time uses a subscriber and its subscriptions. A process may have any
 *          number of subscribers. The library makes no thread for them.
 * Memory   tb_subscriber_open, tb_subscribe and joins allocate, up to the bounds in the options;
 *          polling allocates nothing. Options and strings are copied. The memory in which READs
 *          land is first touched by the calling thread: in tb_subscriber_open and tb_subscribe,
 *          and in tb_poll for a topic joined later. The kernel places it on that thread's NUMA
 *          node, so call from a thread near the device.
 * Handlers A handler must return. If it is left by longjmp, pthread_exit or a C++ exception, the
 *          subscriber is unusable: calls return -EDEADLK. tb_subscriber_close frees it, on the same
 *          thread or after that thread has ended. If the handler had closed it, close it again.
 * Lifetime A subscription lives until tb_unsubscribe or tb_subscriber_close. Called in a handler,
 *          both take effect when the handler returns. A forked child must not use what its parent
 *          opened; only these two calls are allowed there, and do nothing. */
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

/* A flag of both option structures: wait for a publisher or topic that does not exist yet. Also
 * wait for memory or descriptors that the publisher lacks. The call returns 0. tb_error() then says
 * what it waits for, or is "" if there is nothing to wait for. */
#define TB_WAIT 0x1u

/* A polling interval of 0: tb_poll READs a topic's progress line again as soon as the last READ has
 * completed. The READ of the next slots goes out with it, so a record costs one round trip. The
 * polling interval is the time between two looks at a topic for which no notices arrive. */
#define TB_POLL_SPIN UINT32_MAX

struct tb_subscriber_options {
	size_t size;           /* sizeof(struct tb_subscriber_options) */
	const char *address;   /* "shm:NAME" or "rdma:HOST:PORT", with parameters after commas;
				* required. "fault:FAULTS/ADDRESS" adds faults on purpose.
				* tickbus(1) describes them */
	uint32_t flags;        /* TB_WAIT: open at once, connect when the publisher is there */
	uint32_t connect_ms;   /* timeout of open and subscribe, 1 to 60,000. Default 1,000 */
	uint32_t stale_ms;     /* stale bound, 20 to 60,000. Default: the publisher's */
	uint32_t topics_max;   /* topics joined at once, 1 to 1,024. Default 256 */
	uint32_t batch_bytes;  /* landing memory of each topic, 8,192 to 16 MiB. Default 65,536.
				* With on_batch also the maximum size of a batch, for which the
				* topic has as much memory again */
	uint32_t read_bytes;   /* maximum size of a READ, in whole slots but at least one slot;
				* batch_bytes / 32 to batch_bytes. Default 8,192, or batch_bytes /
				* 32 if that is more */
	const uint8_t *ticket; /* TB_TICKET_BYTES, of the realm to enter. NULL: no ticket */
	uint32_t poll_us;      /* polling interval over a network, 1 to 1,000,000 us, or
				* TB_POLL_SPIN. Default 1,000. Has no effect over shared memory,
				* where each tb_poll looks at the memory itself */
};

/* A flag of a subscription: over a network, READ the progress line before and after each batch. The
 * batch is delivered only if no slot was touched in between. So delivery does not rest on the
 * checksum alone. Costs one more READ for each batch. Has no effect over shared memory, which does
 * not need it. */
#define TB_STRICT 0x2u

/* A flag of a subscription: joins topics and delivers events, but reads no records, for programs
 * that only ask for values (tb_get). on_record may be NULL. The position follows the head, and the
 * records that it passes count as skipped. Not with TB_STRICT, and only from the newest record. */
#define TB_VALUES 0x4u

/* A flag of a subscription: a watch list. Reads no records, as with TB_VALUES. Instead it delivers
 * the value of each chosen instrument (`names`) when it is first seen, and again whenever it
 * changed, newest only. These records have TB_FLAG_IMAGE. A value that was removed is delivered as
 * a record of kind clear, if the program got a value before. tb_poll looks at the values when
 * records were published since the last look, at most once in look_us. A look READs the values of
 * the chosen instruments, and at most a third as many slots between them. */
#define TB_WATCH 0x8u

/* A flag of a subscription: a merge. All its topics belong to one group (tb_group_create), and
 * their records are delivered together, in the order of (time_ns, topic, sequence). A topic that is
 * ahead is not read further meanwhile; nothing is buffered. A record that comes too late for this
 * order is a gap with cause corrupt. The first topic that is joined
 * decides the group. Topics of another group are refused, EINVAL, and topics of no group,
 * EOPNOTSUPP. With TB_FROM_IMAGE the subscription begins with one cut through all
 * its topics: see TB_EVENT_COMPLETE. Not with on_batch, TB_STRICT, TB_VALUES, TB_WATCH,
 * TB_GAP_IMAGE or conflation. */
#define TB_MERGE 0x10u

/* A flag of a subscription with `names`, for exact names. A topic that lacks an instrument with one
 * of these names is refused before it is joined, ENOENT. Without the flag, the subscription waits
 * for the instrument. A topic that was joined stays joined when it restarts. Its new epoch begins
 * with an empty directory, and TB_EVENT_NO_INSTRUMENT names what is missing. */
#define TB_NAMES_REQUIRED 0x20u

/* For conflate_us: no interval; each tb_poll delivers the newest value of each instrument. */
#define TB_CONFLATE_POLL UINT32_MAX

/* Where a subscription starts in a topic. */
enum tb_from {
	TB_FROM_NEWEST = 0, /* at the first record published after the join */
	TB_FROM_OLDEST,     /* at the oldest record held; earlier records are a gap: before_join */
	TB_FROM_SEQUENCE,   /* at (epoch, sequence); epoch 0: the present epoch */
	TB_FROM_IMAGE, /* with an image: the present value of each instrument, while the records
			* after the join are delivered. The topic needs last values */
	TB_FROM_TIME,  /* `back` records before the last record with a time up to time_ns. For
			* topics whose times rise: those of groups. Others are refused,
			* EOPNOTSUPP. If the time lies before the oldest record that is held, the
			* records before that, from 1 on, are a gap: before_join. So are records
			* that `back` asks for and that are not held */
	TB_FROM_LAST,  /* `back` records before the first record published after the join. Those
			* that are overwritten are a gap: before_join */
};

/* What follows a gap. */
enum tb_gap {
	TB_GAP_OLDEST = 0, /* delivery goes on with the oldest record that is held */
	TB_GAP_NEWEST,     /* after an overrun the records that are held are skipped; delivery goes
			    * on behind the head */
	TB_GAP_IMAGE,      /* as oldest, and after an overrun or a corrupt record an image repairs
			    * the program's table. So does an image at a start behind records that
			    * were asked for. The topic needs last values */
};

enum tb_cause {
	TB_CAUSE_OVERRUN = 1, /* overwritten before this subscriber read them */
	TB_CAUSE_BEFORE_JOIN, /* overwritten before this subscriber joined */
	TB_CAUSE_UPSTREAM,    /* the publisher itself never got them */
	TB_CAUSE_CORRUPT,     /* still held, but never readable whole */
};

enum tb_event_kind {
	TB_EVENT_APPEARED = 1, /* the topic was joined: epoch; first is the next to be delivered */
	TB_EVENT_GAP,          /* records first to last are lost: cause */
	TB_EVENT_STALE,   /* for the stale bound: no sign of life from the publisher, or from the
			   * writer of a watched topic, or no valid progress line. Or the bus page
			   * did not show the topic's epoch. If the connection was lost, words and
			   * code say why. Comes again if the publisher is back but cannot serve
			   * us; words and code say why. No room: EUSERS, EAGAIN. No access to its
			   * socket: EACCES. Topic unknown: ENOENT. Its port's MTU is smaller than
			   * ours: EMSGSIZE */
	TB_EVENT_LIVE,    /* a sign of life again, in the same epoch. Stale and live do not stop
			   * delivery: records may come between them */
	TB_EVENT_RESTART, /* a new epoch. old_epoch, delivered and head say where reading of the old
			   * epoch ended, 0 in an epoch that was never joined. Several restarts
			   * between two looks are one event: delivered plus lost adds up within
			   * each epoch that was joined */
	TB_EVENT_ENDED,   /* the topic ended and was read to its end: head */
	TB_EVENT_REFUSED, /* the publisher or the schema refuses: words and code. Comes again when
			   * the bus's topics change. If memory or descriptors are short it comes
			   * once, until that works or the message changes. If the whole connection
			   * is refused, for its ticket say, it comes once, with the pattern */
	TB_EVENT_QUALITY, /* the publisher states the quality of the topic's records from here on:
			   * quality, quality_cause, first. Also after a join or a gap, if the
			   * program does not know the quality */
	TB_EVENT_IMAGE,   /* an image begins. Records with TB_FLAG_IMAGE bring each value up to
			   * sequence `first` that the program lacks; the ring brings all later
			   * records. The program keeps its table, unless a RESTART came before: then
			   * the table is void. Comes again if a gap makes the image begin again. If
			   * the reader is lapped again and again, code is EOVERFLOW and words say
			   * so */
	TB_EVENT_COMPLETE, /* the image is complete: the program's table equals the publisher's at
			    * sequence `delivered`. In a merge it comes once for all topics, with
			    * the pattern. Each table then equals the publisher's after the last
			    * record with a time up to time_ns. The image of a topic that joins
			    * or restarts later has a COMPLETE of its own, with the topic's name */
	TB_EVENT_NO_VALUE, /* the stored value of instrument `words` was never readable whole. The
			    * image completes without it. A watch list: 8 looks in a row found it
			    * torn; it comes once it is whole */
	TB_EVENT_NO_INSTRUMENT, /* no instrument of the topic has the chosen name, or matches the
				 * chosen pattern, `words`. Comes once for each topic, epoch and
				 * name, and again if the name was removed and added. If it appears
				 * later it is chosen without an event */
	TB_EVENT_LEFT, /* a merge goes on without this topic: words and code say why. ETIMEDOUT: it
			* did not come back within the stale bound. Else its next epoch was
			* refused with this code. What its old memory held was delivered first,
			* if it could be read. If the topic comes back, APPEARED says so */
};

struct tb_event {
	size_t size; /* of this structure, as the library fills it; it grows at its end */
	enum tb_event_kind kind;
	enum tb_cause cause;    /* GAP */
	const char *topic;      /* name of the topic, or the pattern if it is about no topic */
	uint64_t epoch;         /* the topic's epoch now */
	uint64_t old_epoch;     /* RESTART */
	uint64_t first, last;   /* GAP: the first and last lost record. APPEARED: first. QUALITY:
				 * first, the record that states it; 0: that record was not read.
				 * IMAGE: first, the last sequence that the image covers */
	uint64_t delivered;     /* the last sequence delivered, reported as a gap or skipped; at
				 * most head, also if the subscription starts beyond it */
	uint64_t head;          /* the last head known; RESTART: of the old epoch */
	int code;               /* REFUSED: an errno value: ENOENT, EACCES, EPROTO, ENOSPC ...;
				 * STALE, IMAGE: 0, or the reason as above; LEFT: as above */
	const char *words;      /* the message for code; valid inside the handler */
	uint32_t quality;       /* enum tb_quality: of the topic now; 0 if it is about no topic */
	uint32_t quality_cause; /* QUALITY: enum tb_quality_cause, or the program's own; 0 if first
				 * is 0 */
	int64_t user;           /* id of the user whose process listens, or listened last; -1: not
				 * known, as over a network */
	uint64_t skipped;       /* GAP: records behind `last` that TB_GAP_NEWEST skips */
	uint64_t time_ns;       /* in a merge. APPEARED: the merge had come so far, and records of
				 * this topic up to this time are skipped. COMPLETE: the time of
				 * the cut. 0: neither */
	uint64_t lost;          /* GAP: how many of first to last are lost. With conflation some of
				 * them may have been delivered already, as newest values */
	uint64_t held;          /* with conflation: how many of the records up to `delivered` are
				 * not settled yet. Each is the newest of its instrument. The end of
				 * the interval delivers it, or skips it for a newer record */
};

/* A joined topic, as handlers get it. Valid as long as its subscription. */
struct tb_source;
TB_API const char *tb_source_topic(const struct tb_source *source);

/* The publisher's schema; valid until the topic's next RESTART. */
TB_API const struct tb_schema *tb_source_schema(const struct tb_source *source);
TB_API uint64_t tb_source_epoch(const struct tb_source *source);

/* The quality of the topic at this record, enum tb_quality. The last quality event said the same; a
 * topic without a quality event is good. */
TB_API uint32_t tb_source_quality(const struct tb_source *source);

/* The name of an instrument, valid until the topic's next RESTART. NULL: the topic lacks the
 * instrument, or no record of it was read yet. Each instrument of a record or batch has its name.
 * tb_source_instruments makes all names known. */
TB_API const char *tb_source_name(const struct tb_source *source, uint32_t instrument);

/* A record of a batch as it lies in memory, in the layout of the wire. The payload follows. */
struct tb_slot {
	uint64_t sequence;   /* 1, 2, 3 ... within the topic and epoch */
	uint64_t time_ns;    /* publication, nanoseconds since 1970 UTC, by the publisher's clock */
	uint32_t instrument; /* index in the topic's directory; tb_source_name() has its name */
	uint16_t length;     /* bytes of payload; can be fewer than the schema has */
	uint8_t kind;        /* enum tb_kind, or the program's own */
	uint8_t flags;       /* TB_FLAG_... */
	uint64_t check;      /* the publisher's checksum, which was verified; 0 without checksums */
};

/* Records of one topic, in order and without a gap, except that a subscription with `names` leaves
 * out those of other instruments. They are private copies, valid inside the
 * handler; bytes behind a payload mean nothing. */
struct tb_batch {
	size_t size; /* of this structure, as the library fills it; it grows at its end */
	uint64_t epoch;
	const struct tb_slot *records; /* the first; tb_batch_record() finds the others */
	uint32_t stride;               /* bytes from a record to the next */
	uint32_t count;                /* records, 1 or more */
};

/* Record i of a batch, 0 to count - 1. */
static inline const struct tb_slot *tb_batch_record(const struct tb_batch *batch, uint32_t i)
{
	return (const struct tb_slot *)((const void *)((const char *)batch->records +
						       (size_t)i * batch->stride));
}

/* The payload of a record of a batch, aligned to 8 bytes. */
static inline const void *tb_slot_data(const struct tb_slot *slot)
{
	return slot + 1;
}

typedef void tb_record_handler(void *user, const struct tb_source *source,
			       const struct tb_record *record);
typedef void tb_event_handler(void *user, const struct tb_event *event);

/* Gets what on_record gets, in the same order, but many records in a call. Gaps and events come
 * between batches. A value of an image is a batch of its own, with TB_FLAG_IMAGE.
 *
 * In a topic that marks messages (TB_TOPIC_MARKS_MESSAGES), a batch has whole messages. The first
 * records of a message wait until its last record is there, also while the publisher is stale. A
 * batch can end inside a message that is longer than batch_bytes or records_max. It also ends there
 * before a gap or event that interrupts the message, and before the topic's end or restart. Its
 * last record then lacks TB_FLAG_LAST. With `names`, the record that ends the message may be of
 * another instrument, and the batch ends without it. */
typedef void tb_batch_handler(void *user, const struct tb_source *source,
			      const struct tb_batch *batch);

struct tb_subscription_options {
	size_t size;                  /* sizeof(struct tb_subscription_options) */
	tb_record_handler *on_record; /* each record; required, unless on_batch or TB_VALUES is
				       * set */
	tb_event_handler *on_event;   /* NULL: events are counted only */
	void *user;                   /* passed to the handlers */
	enum tb_from from;
	uint32_t flags;           /* TB_WAIT: wait for an exact name that is unknown; TB_STRICT,
				   * TB_VALUES, TB_WATCH, TB_MERGE, TB_NAMES_REQUIRED */
	uint64_t epoch, sequence; /* TB_FROM_SEQUENCE; sequence counts from 1 */
	const struct tb_schema *schema; /* refuse topics that do not fit it; NULL: accept any. Must
					 * live as long as the subscription */
	enum tb_gap gap;                /* what follows a gap. Default: TB_GAP_OLDEST */
	tb_batch_handler *on_batch;     /* instead of on_record: many records in a call */
	uint64_t time_ns;               /* TB_FROM_TIME: nanoseconds since 1970 UTC */
	uint64_t back;                  /* TB_FROM_TIME, TB_FROM_LAST: records of the topic,
					 * also those that `names` leaves out, 0 to 2^32 */

	/* The chosen instruments: names, or patterns of fnmatch(3) with *, ? or [ in them. NULL:
	 * all. Records of other instruments are skipped and counted, images leave them out. Holes
	 * and qualities are of the topic, and always come. tb_names_add and tb_names_remove change
	 * the list; an image that has begun leaves out what is added. */
	const char *const *names;
	size_t name_count; /* at most 65,536 */

	uint32_t look_us; /* TB_WATCH: the shortest time between two looks, at most 60,000,000.
			   * Default 0: each tb_poll may look. tb_wait sleeps between two looks. But
			   * over a network each notice ends its sleep: it may be about any topic */

	/* Conflation: at most one record of each instrument in each interval of this many
	 * microseconds, its newest; at most 60,000,000, or TB_CONFLATE_POLL. 0: no conflation.
	 * Intervals begin at the join. The records come at the end of the interval, in the order of
	 * instruments. The topics need last values. Records that are left out count as skipped,
	 * also if the ring has overwritten them; with exempt kinds that is a gap.
	 * Records that change no value are left out too, unless exempt. These are cancels, status
	 * records, corrections with TB_FLAG_PAST, and the kinds 8 to 127.
	 * After a gap all values are read: a record that the gap lost comes with TB_FLAG_IMAGE. So
	 * it is after a gap at the start, but for records before TB_FROM_OLDEST. A record may come
	 * before the position has reached it; it counts as delivered when the position passes it.
	 * With TB_FROM_IMAGE conflation begins behind the image. Not with
	 * TB_STRICT, TB_VALUES, TB_WATCH, TB_MERGE, on_batch or another gap policy than
	 * TB_GAP_OLDEST. */
	uint32_t conflate_us;

	/* Kinds, 1 to 255, of which each record is delivered when the ring brings it, in the order
	 * of the ring. So it may come before an older record of a kind that is conflated. If one of
	 * these kinds is a value, no value comes ahead of the position. A newer value follows when
	 * the ring brings it. */
	const uint8_t *exempt_kinds;
	size_t exempt_kind_count;         /* at most 256 */
	const char *const *exempt_topics; /* patterns of topics that are not conflated */
	size_t exempt_topic_count;        /* at most 256 */
};

/* Connects to the bus at options->address. With TB_WAIT, tb_poll and tb_wait retry after errors
 * that can pass: all but EINVAL, EPROTO, ENOMEM, EMFILE, ENOTDIR, and EACCES from the publisher. An
 * EACCES of the socket, its folder or its user can pass.
 *
 * -EINVAL: options. -ECONNREFUSED: nothing listens at the address. -ECONNRESET: the publisher went
 * away before it answered. -EACCES: no permission; or the ticket is of no realm; or a ticket is
 * required; or the publisher does not know the ticket. -EACCES too: another user listens than the
 * address requires, or other users may write to the folder of the socket. -ETIMEDOUT: the publisher
 * does not answer. -ENOTDIR: TICKBUS_RUNTIME_DIR is no folder. -EHOSTUNREACH, -ENETUNREACH: no
 * route. -ENODEV: no RDMA device. -EPROTO: no version in common, or refused. -EUSERS: the publisher
 * has as many subscribers as it accepts. -EAGAIN: the publisher lacks memory or descriptors.
 * -ENOMEM, -EMFILE: we lack memory or descriptors. */
TB_API int tb_subscriber_open(struct tb_subscriber **subscriber,
			      const struct tb_subscriber_options *options);

/* Joins every topic that matches pattern, now and later. A name has parts with dots between. `*`
 * matches within one part; `>` as the last part matches all the rest. A pattern without them is the
 * exact name of one topic. Each join, of a new topic or of a topic that comes back, is an event.
 * May call on_event, never on_record or on_batch.
 *
 * If a pattern matches a topic that is refused, that causes an event, and the other topics are
 * joined. If a pattern has no match yet, the call returns 0; tb_error() then says so, as with
 * TB_WAIT. With TB_WAIT, of the subscriber or the subscription, a shortage at the publisher is
 * waited out: the join is asked for again with each pulse.
 *
 * -EINVAL: pattern, options or names, also TB_STRICT with an image. -ENOENT: an exact name is
 * unknown (without TB_WAIT), or a topic lacks a required instrument. -EOPNOTSUPP: an image, a watch
 * list or conflation, of a topic without last values; or a start by time, and its times need not
 * rise. -EPROTO: the topic's schema does not fit options->schema; the message names both. -EACCES:
 * no permission. -ENOSPC: more topics than topics_max. -ENOMEM, -EMFILE, -ENFILE, -EAGAIN: memory
 * or descriptors are short, here or at the publisher. -ETIMEDOUT: no answer. -EBUSY: called in a
 * handler. -EDEADLK: a handler was left by a jump. -ECANCELED: a handler ended the subscription
 * meanwhile. */
TB_API int tb_subscribe(struct tb_subscriber *subscriber, const char *pattern,
			const struct tb_subscription_options *options,
			struct tb_subscription **subscription);

/* A topic that the subscription has joined, by its exact name. NULL: it has not, or the topic was
 * refused. Handlers get the same source. */
TB_API const struct tb_source *tb_subscription_source(const struct tb_subscription *subscription,
						      const char *topic);

/* -- values ---------------------------------------------------------------------------------------
 *
 * Each instrument of a topic has at most one value. It is the last record of kind update,
 * correction (without TB_FLAG_PAST), or of the program's own kinds. A record of kind clear removes
 * it. A topic has values unless its publisher leaves them out (TB_TOPIC_NO_LAST_VALUE). The calls
 * below read the publisher's memory now, whatever was delivered before. Numbers of instruments are
 * valid until the topic's next RESTART.
 *
 * They may be called in a handler of records or events, and call neither kind. Over shared
 * memory they never wait. They also work without a publisher: the values are the last that it left,
 * and the topic is stale. Over a network each waits for its READs, at most connect_ms. After each
 * connect, the first of these calls allocates the memory that they land in.
 *
 * All return -errno: -EAGAIN: the topic is being joined, or its epoch is changing: call tb_poll and
 * try again. Also if a line or an entry of the directory was never valid in 8 copies. -ENOENT: the
 * topic was left. -ENOTCONN: over a network, no connection. -ETIMEDOUT: over a network, no answer.
 * -ENOMEM. -EDEADLK: over a network, a handler was left
 * by a jump. */

/* The number of an instrument. The names are copied once in each epoch; a later call copies only
 * those that were added, and only if the name is not known.
 *
 * -ENOENT: the topic has no instrument of this name, or not yet. -EINVAL: the name has not 1 to 24
 * bytes of printable ASCII without a space at either end. */
TB_API int tb_source_instrument(const struct tb_source *source, const char *name);

/* How many instruments the topic has now. Their numbers are 0 to this number - 1. */
TB_API int tb_source_instruments(const struct tb_source *source);

/* Reads the last value of an instrument. *record belongs to the library. It is valid until the next
 * tb_get or tb_get_many of this subscriber, or its next tb_poll. Returns 1: the value. Returns 0:
 * there is no value. Then kind is TB_KIND_CLEAR if there was a value, with sequence and time of the
 * record that removed it. Else kind and sequence are 0: no value was ever published. In the handler
 * of a record, the value may still be that before the record.
 *
 * -errno as above; *record is then NULL. -EAGAIN also: 8 copies were not whole. -ENOENT also:
 * the topic has no instrument of this number. -EOPNOTSUPP: the topic has no last values. -EINVAL:
 * the subscription has TB_STRICT. */
TB_API int tb_get(const struct tb_source *source, uint32_t instrument,
		  const struct tb_record **record);

/* Gets the result of tb_get for an instrument: 1, 0, or -EAGAIN if 8 copies were not whole.
 * The handler may call tb_get. `record` is valid inside it; after -EAGAIN it says only which
 * instrument it is about. */
typedef void tb_value_handler(void *user, const struct tb_source *source, int result,
			      const struct tb_record *record);

/* Reads the values of `count` instruments, 1 to 1,048,576, and calls the handler for each, in the
 * order of the list. Over a network, neighbours in the list whose numbers follow each other share a
 * READ, and several READs are outstanding. The values are read in turn, not at a single
 * moment. Returns how many instruments have a value.
 *
 * -errno as of tb_get. -EINVAL also: the list is empty or too long, or there is no handler.
 * -EBUSY: called in a handler of tb_get_many or tb_read_back. -ECANCELED: the handler closed the
 * subscriber or ended the subscription. If the list itself is wrong, no handler is called. If READs
 * fail later, it was called for the first instruments. */
TB_API int tb_get_many(const struct tb_source *source, const uint32_t *instruments, size_t count,
		       tb_value_handler *handler, void *user);

/* -- history --------------------------------------------------------------------------------------
 *
 * These calls read the ring now, whatever was delivered before, and the position does not move.
 * What holds for the calls about values holds for them. They may be used with each kind of
 * subscription; with TB_STRICT, the progress line is READ after the slots. -ENODATA: the topic has
 * no record yet. -ERANGE: the record lies before the oldest that is held; the message has both.
 * -EAGAIN also: the writer is overwriting all that is held. */

/* Finds the last record with a time up to time_ns, in this epoch: the last of several records with
 * an equal time. For a time in the future, that is the newest record. Copies single slots, as many
 * as the logarithm of the ring's size. A record that stays corrupt is left out.
 *
 * -EOPNOTSUPP: the topic's times need not rise, because it belongs to no group. -EAGAIN also: 256
 * copies of slots did not suffice. */
TB_API int tb_find_time(const struct tb_source *source, uint64_t time_ns, uint64_t *sequence);

/* All instruments, in tb_read_back. */
#define TB_ALL_INSTRUMENTS UINT32_MAX

/* A record of the past. It is valid inside the handler. Returns 0 to go on; any other value ends
 * the call, which returns it. */
typedef int tb_past_handler(void *user, const struct tb_source *source,
			    const struct tb_record *record);

/* Reads the ring backwards, from record `sequence` on, 0: from the newest record. Calls the handler
 * for the last `count` records of an instrument, newest first. Holes and qualities are of the topic
 * and not of an instrument, so they do not come. Each slot is READ once, many together; a copy that
 * is not whole is repeated, and after 8 copies the record is left out. Returns how many records
 * there were. They are fewer than `count` if the ring holds no more of them, and if the writer
 * overwrote records before they were read. The slots from *oldest to `sequence` were looked at; it
 * may be NULL. The whole ring may be read, and tb_poll does not run meanwhile.
 *
 * The handler may call tb_get and tb_find_time. -EINVAL: count 0, no handler, or a sequence beyond
 * the newest record. -ENOENT also: the topic has no instrument of this number. -EBUSY: called in a
 * handler of tb_read_back or tb_get_many. -ECANCELED: the handler closed the subscriber or ended
 * the subscription. */
TB_API int tb_read_back(const struct tb_source *source, uint64_t sequence, uint32_t instrument,
			uint32_t count, tb_past_handler *handler, void *user, uint64_t *oldest);

/* -- chosen instruments ---------------------------------------------------------------------------
 */

/* Adds to the list of a subscription that was made with `names`, which may be empty (a pointer to
 * something, name_count 0). A name that is in the list already stays there once. The change holds
 * from the next record, or the next look of a watch list, which comes at once. Returns how many
 * were added. The call compares the changed names with the names of all joined topics. May be
 * called in a handler. With TB_NAMES_REQUIRED, over a network, it may wait for READs as
 * tb_source_instrument does.
 *
 * -EINVAL: a name is not 1 to 24 bytes, a pattern not 1 to 127 bytes, of printable ASCII; or the
 * subscription has no list. Nothing is added then. -ENOSPC: more than 65,536. -ENOENT: with
 * TB_NAMES_REQUIRED, no joined topic has an instrument of this name; or -errno of
 * tb_source_instrument. -ENOMEM. */
TB_API int tb_names_add(struct tb_subscription *subscription, const char *const *names,
			size_t count);

/* Removes from the list, by the text that was added. Records that already wait for the end of their
 * message (on_batch) still come. Returns how many were removed.
 *
 * -EINVAL: as above. -ENOENT: one of them is not in the list; nothing is removed then. */
TB_API int tb_names_remove(struct tb_subscription *subscription, const char *const *names,
			   size_t count);

/* Leaves the topics. Takes NULL. */
TB_API void tb_unsubscribe(struct tb_subscription *subscription);

/* Delivers what is there by calling the handlers, at most records_max (1 or more) records. Never
 * blocks, and makes no system call while records flow. (Over Soft-iWARP, making a connection
 * blocks.) Returns how many records it delivered, values of images and of watch lists too. Other
 * records take time as well, so they count too, also against records_max. They are reported as a
 * quality event or as a gap of cause upstream. Or they are skipped because of `names`, or by a
 * merge that was past their time when their topic joined. What conflation skips does not count.
 * Records that wait for the end of their message count when they are delivered. Events may come
 * with a return value of 0. An absent publisher is no error: events report it.
 *
 * -EINVAL: records_max. -EBUSY: called in a handler. -EDEADLK: a handler was left by a jump.
 * -ECANCELED: a handler closed the subscriber. */
TB_API int tb_poll(struct tb_subscriber *subscriber, int records_max);

/* Sleeps until there may be something to poll, at most timeout_ms; -1: no limit. Returns 1 to poll,
 * or 0 after the timeout. Over shared memory its sleeps are short while records come each half
 * millisecond or more often. They take 20 to 50 us, on a busy machine up to 1 ms, and it returns 1
 * even if no record came.
 *
 * -EINTR: interrupted by a signal. -EBUSY: called in a handler. -EDEADLK: as tb_poll. */
TB_API int tb_wait(struct tb_subscriber *subscriber, int timeout_ms);

/* A descriptor for poll or epoll. It is readable when tb_poll may have something to do, which
 * includes a stale event that is due. From this call on, each tb_poll that finds nothing arms the
 * wake-up, or sets a timer for a short sleep (tb_wait). So wait for the descriptor, then call
 * tb_poll until it returns 0. Do not read, write or close it. */
TB_API int tb_subscriber_fd(struct tb_subscriber *subscriber);

/* The id of the user whose process listens at the address, as the kernel says. "shm:NAME,user=U"
 * requires a user.
 *
 * -ENOTCONN: not connected. -EOPNOTSUPP: over a network. */
TB_API int tb_subscriber_user(const struct tb_subscriber *subscriber, uint32_t *user);

/* Ends everything and frees it, even if a handler was left by a jump. Takes NULL. */
TB_API void tb_subscriber_close(struct tb_subscriber *subscriber);

/* Fills in the subscription's counters, at most max, in the order of
 * tb_counters(TB_SCOPE_SUBSCRIPTION, &count). Returns the number filled in. */
TB_API size_t tb_subscription_counters(const struct tb_subscription *subscription, uint64_t *values,
				       size_t max);

#ifdef __cplusplus
}
#endif

#endif
