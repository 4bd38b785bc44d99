/* SPDX-License-Identifier: Apache-2.0 */
/* Writes a slot. Inlined into the publisher's code: it costs a few stores for each record, and
 * calls would double that.
 *
 * W1  sequence 0, barrier, body.   Pairs with R2 (bus/record.c): a reader that saw one word of the
 *     new body finds the sequence changed when it reads it again.
 * W2  body, barrier, sequence n.   Pairs with R1: a reader that saw n first sees the whole body of
 *     n, or of a later record. */
#ifndef TICKBUS_BUS_RECORD_PUT_H
#define TICKBUS_BUS_RECORD_PUT_H

#include <stdbool.h>
#include <string.h>

#include "bus/barrier.h"
#include "bus/hash.h"
#include "bus/record.h"

#define RECORD_INLINE static inline __attribute__((always_inline))
#define META_WORD     2
#define CHECK_WORD    3
#define PAYLOAD_WORD  (RECORD_HEADER_BYTES / 8)

static_assert(offsetof(struct record, instrument) == META_WORD * 8, "the word that has the length");
static_assert(offsetof(struct record, check) == CHECK_WORD * 8, "the word that holds the salt");

/* The payload that fills the smallest slot. */
#define RECORD_SMALL (SLOT_BYTES_MIN - RECORD_HEADER_BYTES)

/* Payloads of whole words, up to the payload of a slot of two cache lines, are fixed: code is made
 * for each of their lengths. Their words go from the caller's memory to the slot in registers, and
 * so does their hash. */
#define RECORD_FIXED_MAX (2 * SLOT_BYTES_MIN - RECORD_HEADER_BYTES)
#define RECORD_EACH_FIXED(DO)                                                                      \
	DO(0) DO(8) DO(16) DO(24) DO(32) DO(40) DO(48) DO(56) DO(64) DO(72) DO(80) DO(88) DO(96)

static_assert(RECORD_FIXED_MAX == 96, "the last length of RECORD_EACH_FIXED");

/* The first words of a record, made in registers. A word that is stored in parts and loaded whole
 * would wait until the parts reach the cache. */
struct record_head {
	uint64_t sequence;
	uint64_t time_ns;
	uint64_t meta;
};

RECORD_INLINE uint64_t record_meta(uint32_t instrument, uint16_t length, uint8_t kind,
				   uint8_t flags)
{
	return instrument | (uint64_t)length << 32 | (uint64_t)kind << 48 | (uint64_t)flags << 56;
}

RECORD_INLINE uint16_t record_meta_length(uint64_t meta)
{
	return (uint16_t)(meta >> 32);
}

RECORD_INLINE uint64_t record_word(const void *bytes, size_t i)
{
	uint64_t word;

	memcpy(&word, (const char *)bytes + i * 8, sizeof(word));
	return word;
}

/* The bytes of a payload after its whole words, padded with zeros. */
RECORD_INLINE uint64_t record_last_word(const void *payload, size_t length)
{
	uint64_t word = 0;

	memcpy(&word, (const char *)payload + length / 8 * 8, length % 8);
	return word;
}

/* The bytes that the check covers: the record, with the salt in place of the check. */
RECORD_INLINE void record_image(uint64_t *image, const struct record_head *head,
				const void *payload, size_t length, uint64_t salt)
{
	image[0] = head->sequence;
	image[1] = head->time_ns;
	image[META_WORD] = head->meta;
	image[CHECK_WORD] = salt;
	if (length > 0)
		memcpy(&image[PAYLOAD_WORD], payload, length);
}

RECORD_INLINE bool record_is_fixed(size_t length)
{
	return length <= RECORD_FIXED_MAX && length % 8 == 0;
}

/* The check of a record with a fixed payload. In registers, if length is a compile-time constant.
 */
RECORD_INLINE uint64_t record_check_fixed(const struct record_head *head, const void *payload,
					  size_t length, uint64_t salt)
{
	uint64_t image[PAYLOAD_WORD + RECORD_FIXED_MAX / 8];

	image[0] = head->sequence;
	image[1] = head->time_ns;
	image[META_WORD] = head->meta;
	image[CHECK_WORD] = salt;
	_Pragma("GCC unroll 12") for (size_t i = 0; i < length / 8; i++) image[PAYLOAD_WORD + i] =
		record_word(payload, i);
	return XXH3_64bits(image, RECORD_HEADER_BYTES + length);
}

RECORD_INLINE void slot_begin(struct slot *slot)
{
	atomic_store_explicit(&slot->word[0], 0, memory_order_relaxed);
	barrier_store(); /* W1 */
}

RECORD_INLINE void slot_end(struct slot *slot, uint64_t sequence)
{
	barrier_store(); /* W2 */
	atomic_store_explicit(&slot->word[0], sequence, memory_order_relaxed);
}

RECORD_INLINE void slot_put(struct slot *slot, size_t i, uint64_t word)
{
	atomic_store_explicit(&slot->word[i], word, memory_order_relaxed);
}

/* Writes a record into a slot: sequence 0, body, sequence. The payload is `length` private bytes,
 * as head says; the rest of their last word is zero. salt NULL: no check.
 *
 * The payload is written from its last word to its first, and the header after it. Readers watch
 * the line of the sequence. If the header came first, they would take that line while the writer
 * waits for the other lines.
 *
 * The check is computed after the rest of the body is written. With `fixed`, length is a
 * compile-time constant, and the check is computed in registers. Any other payload is hashed from
 * its image, which has reached the cache by then. */
RECORD_INLINE void record_put_as(struct slot *slot, const struct record_head *head,
				 const void *payload, size_t length, const uint64_t *salt,
				 bool fixed)
{
	uint64_t image[SLOT_WORDS_MAX], check = 0;

	if (salt && !fixed)
		record_image(image, head, payload, length, *salt);
	slot_begin(slot);
	if (length % 8)
		slot_put(slot, PAYLOAD_WORD + length / 8, record_last_word(payload, length));
	_Pragma("GCC unroll 12") for (size_t i = length / 8; i-- > 0;)
		slot_put(slot, PAYLOAD_WORD + i, record_word(payload, i));
	slot_put(slot, 1, head->time_ns);
	slot_put(slot, META_WORD, head->meta);
	if (salt)
		check = fixed ? record_check_fixed(head, payload, length, *salt)
			      : XXH3_64bits(image, RECORD_HEADER_BYTES + length);
	slot_put(slot, CHECK_WORD, check);
	slot_end(slot, head->sequence);
}

RECORD_INLINE void record_put(struct slot *slot, const struct record_head *head,
			      const void *payload, size_t length, const uint64_t *salt)
{
	record_put_as(slot, head, payload, length, salt, false);
}

/* Copies a slot that this thread wrote into a second slot. */
RECORD_INLINE void record_repeat(struct slot *slot, const struct slot *from, size_t length)
{
	const size_t words = PAYLOAD_WORD + (length + 7) / 8;

	slot_begin(slot);
	_Pragma("GCC unroll 4") for (size_t i = 1; i < words; i++)
		slot_put(slot, i, atomic_load_explicit(&from->word[i], memory_order_relaxed));
	slot_end(slot, atomic_load_explicit(&from->word[0], memory_order_relaxed));
}

#endif
