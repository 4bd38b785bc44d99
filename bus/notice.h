/* SPDX-License-Identifier: Apache-2.0 */
/* A notice: the multicast datagram that announces new heads.
 *
 *   header   40 bytes: magic u32, version u8, flags u8, count u16, bus_id u64, send_time_ns u64,
 *            bytes u32 (of the whole datagram), sender u32, number u64
 *   entries  32 bytes each: topic id u32, inline count u16, reserved u16, epoch u64, head u64,
 *            tag u64. Each is followed by its inline records (32 + length bytes each, padded to 8).
 *
 * A sender is the topic whose writer sends (its id), or the control thread (0). It numbers its
 * datagrams 1, 2, 3 ..., so that a receiver can count lost datagrams. A head in a notice is a hint:
 * a lost or forged notice costs latency, never data. An inline record proves itself by its check,
 * like any other copy. */
#ifndef TICKBUS_BUS_NOTICE_H
#define TICKBUS_BUS_NOTICE_H

#include "bus/bounds.h"
#include "bus/record.h"

#define NOTICE_MAGIC     0x4e554254u /* "TBUN" */
#define NOTICE_VERSION   2
#define NOTICE_HEADER    40
#define NOTICE_ENTRY     32
#define NOTICE_KEY_BYTES 16 /* of a topic and epoch */

/* Building a notice: begin, then each topic's entry and its records, then finish. */
struct notice_writer {
	uint8_t *bytes;
	size_t limit;
	size_t used;
	size_t entry; /* offset of the open entry */
	uint16_t count;
};

/* limit is from BOUND_NOTICE_BYTES_MIN to BOUND_NOTICE_BYTES_MAX. */
void notice_begin(struct notice_writer *, void *bytes, size_t limit, uint64_t bus_id,
		  uint64_t send_time_ns);
void notice_number(struct notice_writer *, uint32_t sender, uint64_t number);
/* 0, or -ENOSPC: finish this datagram and begin another. */
int notice_entry(struct notice_writer *, uint32_t topic_id, uint64_t epoch, uint64_t head);
/* Adds a whole record to the open entry: 0 or -ENOSPC. */
int notice_record(struct notice_writer *, const struct record *);
/* The datagram's length; 0 when it has no entry. */
size_t notice_finish(struct notice_writer *);

struct notice {
	uint64_t bus_id;
	uint64_t send_time_ns;
	uint16_t count;
	uint32_t sender;
	uint64_t number;
};

struct notice_entry {
	uint32_t topic_id;
	uint16_t records;
	uint64_t epoch;
	uint64_t head;
	uint64_t tag; /* proves the entry */
};

struct notice_reader {
	const uint8_t *bytes;
	size_t length;
	size_t at;
	uint16_t entries_left;
	uint16_t records_left;
};

/* Checks the bounds of every entry and record before anything is used: 0, or -EPROTO with a
 * message. */
int notice_open(struct notice_reader *, const void *bytes, size_t length, struct notice *);
/* 1 and the next entry (skips unread records of the previous entry), 0 at the end. */
int notice_next(struct notice_reader *, struct notice_entry *);
/* 1 and a copy of the entry's next record, to be checked with record_verify; 0 at the end. */
int notice_next_record(struct notice_reader *, struct record *);

#endif
