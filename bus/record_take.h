/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of bus/record.c that copy a slot in place and compare a check. They are inlined there,
 * and where a value is read: a call would cost a good part of what the copy costs. bus/record.c
 * says what R1 and R2 are.
 *
 * A writer of values begins with sequence 0, and never stores kind 0. So a kind of 0 shows that the
 * slot was not written yet, whatever the rest of the copy holds. */
#ifndef TICKBUS_BUS_RECORD_TAKE_H
#define TICKBUS_BUS_RECORD_TAKE_H

#include <errno.h>
#include <string.h>

#include "bus/record_put.h"

/* Stores two words in a single store. The hash loads more than a word at a time, and would wait for
 * two stores to reach the cache. */
RECORD_INLINE void pair_store(void *to, uint64_t first, uint64_t second)
{
	typedef uint64_t pair __attribute__((vector_size(16)));
	const pair both = { first, second };

	memcpy(to, &both, sizeof(both));
}

RECORD_INLINE uint64_t slot_word(const struct slot *slot, size_t i)
{
	return atomic_load_explicit(&slot->word[i], memory_order_relaxed);
}

/* Inlined twice: for any length, and for the payload that fills the smallest slot, whose words stay
 * in registers. */
RECORD_INLINE void payload_copy(const struct slot *slot, struct record *copy, size_t length)
{
	const size_t words = (length + 7) / 8;
	uint64_t word;

	_Pragma("GCC unroll 6") for (size_t i = 0; i + 2 <= words; i += 2)
		pair_store(copy->payload + i * 8, slot_word(slot, PAYLOAD_WORD + i),
			   slot_word(slot, PAYLOAD_WORD + i + 1));
	if (words % 2) {
		word = slot_word(slot, PAYLOAD_WORD + words - 1);
		memcpy(copy->payload + (words - 1) * 8, &word, sizeof(word));
	}
}

/* After the words of a slot were copied: 0 if it still holds `sequence`, or -EAGAIN. */
RECORD_INLINE int slot_stays(const struct slot *slot, uint64_t sequence)
{
	atomic_thread_fence(memory_order_acquire); /* R2 */
	return slot_word(slot, 0) == sequence ? 0 : -EAGAIN;
}

/* The sequence word holds `sequence`, as R1 found. */
RECORD_INLINE int body_copy(const struct slot *slot, size_t slot_bytes, uint64_t sequence,
			    struct record *copy)
{
	pair_store(copy, sequence, slot_word(slot, 1));
	pair_store(&copy->instrument, slot_word(slot, META_WORD), slot_word(slot, CHECK_WORD));
	/* The copied length bounds what follows: no word is read a second time. */
	if (copy->length > slot_bytes - RECORD_HEADER_BYTES)
		return -EAGAIN;
	if (copy->length == RECORD_SMALL)
		payload_copy(slot, copy, RECORD_SMALL);
	else
		payload_copy(slot, copy, copy->length);
	return slot_stays(slot, sequence);
}

/* The length of the copy is bounded. */
RECORD_INLINE int check_verify(struct record *copy, uint64_t salt)
{
	const struct record_head head = { copy->sequence, copy->time_ns,
					  record_word(copy, META_WORD) };
	uint64_t check;

	if (copy->length == RECORD_SMALL)
		check = record_check_fixed(&head, copy->payload, RECORD_SMALL, salt);
	else
		check = record_hash(copy, RECORD_HEADER_BYTES + copy->length,
				    offsetof(struct record, check), salt);
	return check == copy->check ? 0 : -EAGAIN;
}

/* Any sequence but 0 is right; the record must be of the slot's instrument. The length of the copy
 * is bounded. */
RECORD_INLINE int value_verify(struct record *copy, uint32_t instrument, bool checked,
			       uint64_t salt)
{
	if (copy->sequence == 0 || copy->kind == 0 || copy->instrument != instrument)
		return -EAGAIN;
	if (checked && check_verify(copy, salt) < 0)
		return -EAGAIN;
	return 1;
}

RECORD_INLINE int value_take(const struct slot *slot, size_t slot_bytes, uint32_t instrument,
			     struct record *copy, bool checked, uint64_t salt)
{
	const uint64_t sequence =
		atomic_load_explicit(&slot->word[0], memory_order_acquire); /* R1 */
	uint64_t found;

	if (sequence == 0) {
		found = slot_word(slot, META_WORD);
		memcpy((char *)copy + META_WORD * 8, &found, sizeof(found));
		return copy->kind == 0 ? 0 : -EAGAIN;
	}
	if (body_copy(slot, slot_bytes, sequence, copy) < 0)
		return -EAGAIN;
	return value_verify(copy, instrument, checked, salt);
}

#endif
