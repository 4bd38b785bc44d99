/* SPDX-License-Identifier: Apache-2.0 */
/* The record and its slot, layout 2.
 *
 *   offset  0  u64  sequence   0 while the slot is being written
 *   offset  8  u64  time_ns    when published, nanoseconds since 1970
 *   offset 16  u32  instrument
 *   offset 20  u16  length     payload bytes in use
 *   offset 22  u8   kind
 *   offset 23  u8   flags
 *   offset 24  u64  check
 *   offset 32  payload
 *
 * Another process reads a slot while it is written, so a slot is words, each stored and loaded
 * whole. A record is a private copy of a slot. The compiler keeps the two types apart.
 *
 * R-I1  A slot whose sequence word is n holds record n whole. Or record n is being replaced, and a
 *       reader notices when it reads the sequence word again (edges W1/R1, W2/R2).
 * R-I2  A network promises no order of the words: there the check alone is the proof.
 * R-I3  record_verify() bounds the length of a copy before anything of the copy is used.
 * R-I4  Memory that another process may write to is read once. What is judged and used afterwards
 * is a private copy. */
#ifndef TICKBUS_BUS_RECORD_H
#define TICKBUS_BUS_RECORD_H

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tickbus/record.h"

#define RECORD_HEADER_BYTES 32
#define SLOT_BYTES_MIN      64
#define SLOT_BYTES_MAX      4096
#define SLOT_WORDS_MAX      (SLOT_BYTES_MAX / 8)
#define LAYOUT_VERSION      2

/* A slot in memory that changes under the reader. */
struct slot {
	_Atomic uint64_t word[1]; /* as many as the topic's slots have */
};

/* A private copy, or a record about to be written. */
struct record {
	uint64_t sequence;
	uint64_t time_ns;
	uint32_t instrument;
	uint16_t length;
	uint8_t kind;
	uint8_t flags;
	uint64_t check;
	uint8_t payload[TB_PAYLOAD_MAX];
};

static_assert(offsetof(struct record, time_ns) == 8, "layout 2");
static_assert(offsetof(struct record, instrument) == 16, "layout 2");
static_assert(offsetof(struct record, length) == 20, "layout 2");
static_assert(offsetof(struct record, kind) == 22, "layout 2");
static_assert(offsetof(struct record, flags) == 23, "layout 2");
static_assert(offsetof(struct record, check) == 24, "layout 2");
static_assert(offsetof(struct record, payload) == RECORD_HEADER_BYTES, "layout 2");
static_assert(sizeof(struct record) == SLOT_BYTES_MAX, "the largest slot");
static_assert(sizeof(_Atomic uint64_t) == 8, "a word is a word");

/* A check is salted with these, so that bytes of another epoch, topic, layout or structure never
 * pass. */
enum record_tag {
	TAG_RECORD = 0,
	TAG_PROGRESS,
	TAG_DIRECTORY,
	TAG_PULSE,
	TAG_BUS_ENTRY,
	TAG_HEADER
};

/* Whether a record changes its instrument's value: replaces it, or with kind clear removes it. */
static inline bool record_is_value(uint8_t kind, uint8_t flags)
{
	return kind == TB_KIND_UPDATE || kind == TB_KIND_CLEAR || kind >= TB_KIND_USER ||
	       (kind == TB_KIND_CORRECTION && !(flags & TB_FLAG_PAST));
}

uint64_t record_salt(uint64_t epoch, uint32_t topic_id, enum record_tag tag);

/* XXH3-64, seed 0, of bytes in which the 8-byte field at check_offset holds the salt. Restores the
 * field. bytes is private memory of at most SLOT_BYTES_MAX. */
uint64_t record_hash(void *bytes, size_t length, size_t check_offset, uint64_t salt);

/* Writes a whole record as record_put of bus/record_put.h does. With checked it computes the check,
 * otherwise it stores 0. */
void record_store(struct slot *slot, const struct record *record, bool checked, uint64_t salt);

/* Copies a slot of shared memory under the sequence lock, header and payload in use, if its
 * sequence is `sequence`. 0; -EAGAIN if it holds another sequence or changed meanwhile. *found is
 * the sequence seen first. slot_bytes bounds the length in use before anything is sized by it. */
int record_copy(const struct slot *slot, size_t slot_bytes, uint64_t sequence, struct record *copy,
		uint64_t *found);

/* Verifies a private copy: 0, or -EAGAIN if it is not record `sequence`, whole, of this topic.
 * sequence 0 accepts any but 0 (last-value slots). Without checked the check is not compared:
 * allowed only for copies made by record_copy. */
int record_verify(struct record *copy, size_t slot_bytes, uint64_t sequence, bool checked,
		  uint64_t salt);

/* Copies and verifies record `sequence` of shared memory; salt NULL: not checked. *found as in
 * record_copy. */
int record_take(const struct slot *slot, size_t slot_bytes, uint64_t sequence, struct record *copy,
		uint64_t *found, const uint64_t *salt);

/* The function that does what record_take does for any sequence but 0. It is fastest for records of
 * this length, in topics with or without checks. Slots have room for this length. */
typedef int record_taker(const struct slot *, size_t slot_bytes, uint64_t sequence, struct record *,
			 uint64_t *found, const uint64_t *salt);
record_taker *record_taker_of(size_t length, bool checked);

/* Copies and verifies record `sequence` of a slot that was READ into `landed`: 0 or -EAGAIN.
 * Another host may write there meanwhile: each byte is read once, and only the copy is judged
 * (R-I4). */
int record_take_landed(const void *landed, size_t slot_bytes, uint64_t sequence,
		       struct record *copy, uint64_t salt);

/* Copies and verifies the last-value slot of an instrument in shared memory, under the sequence
 * lock; salt NULL: not checked. Returns 1 and the value, with any sequence. Returns 0 if the slot
 * was never written in this epoch: no line that was loaded before counts a value of the instrument.
 * Returns -EAGAIN if a write is in progress, or the copy is torn or of another instrument; the
 * copy's content is then undefined. */
int record_take_value(const struct slot *slot, size_t slot_bytes, uint32_t instrument,
		      struct record *copy, const uint64_t *salt);

/* Copies and verifies a last-value slot that was READ into `landed`: results as of
 * record_take_value, for lines that were READ before this READ was posted. Each byte of the landing
 * is read once (R-I4). */
int record_take_landed_value(const void *landed, size_t slot_bytes, uint32_t instrument,
			     struct record *copy, uint64_t salt);

#endif
