/* SPDX-License-Identifier: Apache-2.0 */
/* Copies a slot and verifies the copy: the only place where a record becomes trusted.
 * bus/record_put.h writes records.
 *
 * One thread writes a slot. Any number of processes read it, through shared memory (record_copy) or
 * over a network that promises no order.
 *
 * R1  acquire the sequence, then copy. Pairs with W2.
 * R2  copy, acquire fence, then the sequence again. Pairs with W1.
 * Neither applies to a copy made by a NIC: there only the check proves. */
#include "bus/record.h"

#include <errno.h>
#include <string.h>

#include "bus/record_take.h"

uint64_t record_salt(uint64_t epoch, uint32_t topic_id, enum record_tag tag)
{
	const uint64_t identity[3] = { epoch, topic_id, LAYOUT_VERSION | (uint64_t)tag << 32 };

	return XXH3_64bits(identity, sizeof(identity));
}

uint64_t record_hash(void *bytes, size_t length, size_t check_offset, uint64_t salt)
{
	uint64_t kept, hash;

	memcpy(&kept, (char *)bytes + check_offset, sizeof(kept));
	memcpy((char *)bytes + check_offset, &salt, sizeof(salt));
	hash = XXH3_64bits(bytes, length);
	memcpy((char *)bytes + check_offset, &kept, sizeof(kept));
	return hash;
}

static struct record_head head_of(const struct record *record)
{
	return (struct record_head){ record->sequence, record->time_ns,
				     record_meta(record->instrument, record->length, record->kind,
						 record->flags) };
}

void record_store(struct slot *slot, const struct record *record, bool checked, uint64_t salt)
{
	const struct record_head head = head_of(record);

	record_put(slot, &head, record->payload, record->length, checked ? &salt : NULL);
}

RECORD_INLINE int copy_verify(struct record *copy, size_t slot_bytes, uint64_t sequence,
			      bool checked, uint64_t salt)
{
	if (copy->sequence == 0 || (sequence != 0 && copy->sequence != sequence))
		return -EAGAIN;
	if (copy->length > slot_bytes - RECORD_HEADER_BYTES || copy->kind == 0)
		return -EAGAIN;
	if (!checked)
		return 0;
	return check_verify(copy, salt);
}

int record_copy(const struct slot *slot, size_t slot_bytes, uint64_t sequence, struct record *copy,
		uint64_t *found)
{
	*found = atomic_load_explicit(&slot->word[0], memory_order_acquire); /* R1 */
	if (*found != sequence)
		return -EAGAIN;
	return body_copy(slot, slot_bytes, sequence, copy);
}

int record_verify(struct record *copy, size_t slot_bytes, uint64_t sequence, bool checked,
		  uint64_t salt)
{
	return copy_verify(copy, slot_bytes, sequence, checked, salt);
}

int record_take(const struct slot *slot, size_t slot_bytes, uint64_t sequence, struct record *copy,
		uint64_t *found, const uint64_t *salt)
{
	if (record_copy(slot, slot_bytes, sequence, copy, found) < 0)
		return -EAGAIN;
	return copy_verify(copy, slot_bytes, sequence, salt != NULL, salt ? *salt : 0);
}

/* Copies and verifies a record of this length, which is a compile-time constant: the words are
 * hashed in registers, in the pass that copies them. */
RECORD_INLINE int fixed_take(const struct slot *slot, size_t slot_bytes, uint64_t sequence,
			     struct record *copy, uint64_t *found, const uint64_t *salt,
			     size_t length, bool checked)
{
	struct record_head head;
	uint64_t check, words[RECORD_FIXED_MAX / 8];

	*found = atomic_load_explicit(&slot->word[0], memory_order_acquire); /* R1 */
	if (*found != sequence)
		return -EAGAIN;
	head = (struct record_head){ sequence, slot_word(slot, 1), slot_word(slot, META_WORD) };
	if (__builtin_expect(record_meta_length(head.meta) != length, 0))
		return record_take(slot, slot_bytes, sequence, copy, found, salt);
	check = slot_word(slot, CHECK_WORD);
	_Pragma("GCC unroll 12") for (size_t i = 0; i < length / 8; i++) words[i] =
		slot_word(slot, PAYLOAD_WORD + i);
	pair_store(copy, sequence, head.time_ns);
	pair_store(&copy->instrument, head.meta, check);
	_Pragma("GCC unroll 6") for (size_t i = 0; i + 2 <= length / 8; i += 2)
		pair_store(copy->payload + i * 8, words[i], words[i + 1]);
	if (length % 16)
		memcpy(copy->payload + length - 8, &words[length / 8 - 1], sizeof(words[0]));
	if (slot_stays(slot, sequence) < 0 || copy->kind == 0)
		return -EAGAIN;
	return !checked || record_check_fixed(&head, words, length, *salt) == check ? 0 : -EAGAIN;
}

#define TAKE(bytes)                                                                                \
	static int take_##bytes(const struct slot *slot, size_t slot_bytes, uint64_t sequence,     \
				struct record *copy, uint64_t *found, const uint64_t *salt)        \
	{                                                                                          \
		return fixed_take(slot, slot_bytes, sequence, copy, found, salt, bytes, false);    \
	}                                                                                          \
	static int take_checked_##bytes(const struct slot *slot, size_t slot_bytes,                \
					uint64_t sequence, struct record *copy, uint64_t *found,   \
					const uint64_t *salt)                                      \
	{                                                                                          \
		return fixed_take(slot, slot_bytes, sequence, copy, found, salt, bytes, true);     \
	}
RECORD_EACH_FIXED(TAKE)

record_taker *record_taker_of(size_t length, bool checked)
{
#define TAKE_ENTRY(bytes)         [bytes / 8] = take_##bytes,
#define TAKE_CHECKED_ENTRY(bytes) [bytes / 8] = take_checked_##bytes,
	static record_taker *const takers[2][RECORD_FIXED_MAX / 8 + 1] = {
		{ RECORD_EACH_FIXED(TAKE_ENTRY) }, { RECORD_EACH_FIXED(TAKE_CHECKED_ENTRY) }
	};

	return record_is_fixed(length) ? takers[checked][length / 8] : record_take;
}

/* The compiler reads the copy from here on, and not again what it was made of (R-I4). */
RECORD_INLINE void copy_is_made(void)
{
	atomic_signal_fence(memory_order_seq_cst);
}

RECORD_INLINE int landed_copy(const void *landed, size_t slot_bytes, struct record *copy)
{
	const char *payload = (const char *)landed + RECORD_HEADER_BYTES;

	memcpy(copy, landed, RECORD_HEADER_BYTES);
	copy_is_made();
	if (copy->length > slot_bytes - RECORD_HEADER_BYTES)
		return -EAGAIN;
	if (copy->length == RECORD_SMALL)
		memcpy(copy->payload, payload, RECORD_SMALL);
	else
		memcpy(copy->payload, payload, ((size_t)copy->length + 7) / 8 * 8);
	copy_is_made();
	return 0;
}

int record_take_landed(const void *landed, size_t slot_bytes, uint64_t sequence,
		       struct record *copy, uint64_t salt)
{
	if (landed_copy(landed, slot_bytes, copy) < 0)
		return -EAGAIN;
	return copy_verify(copy, slot_bytes, sequence, true, salt);
}

/* -- values ----------------------------------------------------------------------------------- */

static __attribute__((noinline)) int value_take_unchecked(const struct slot *slot,
							  size_t slot_bytes, uint32_t instrument,
							  struct record *copy)
{
	return value_take(slot, slot_bytes, instrument, copy, false, 0);
}

int record_take_value(const struct slot *slot, size_t slot_bytes, uint32_t instrument,
		      struct record *copy, const uint64_t *salt)
{
	return __builtin_expect(salt != NULL, 1)
		       ? value_take(slot, slot_bytes, instrument, copy, true, *salt)
		       : value_take_unchecked(slot, slot_bytes, instrument, copy);
}

int record_take_landed_value(const void *landed, size_t slot_bytes, uint32_t instrument,
			     struct record *copy, uint64_t salt)
{
	const int result = landed_copy(landed, slot_bytes, copy);

	if (copy->kind == 0)
		return 0;
	return result < 0 ? result : value_verify(copy, instrument, true, salt);
}

TB_API const char *tb_kind_name(uint8_t kind)
{
	static const char *const names[] = {
		[TB_KIND_UPDATE] = "update",   [TB_KIND_CORRECTION] = "correction",
		[TB_KIND_CANCEL] = "cancel",   [TB_KIND_CLEAR] = "clear",
		[TB_KIND_STATUS] = "status",   [TB_KIND_HOLE] = "hole",
		[TB_KIND_QUALITY] = "quality",
	};

	return kind < sizeof(names) / sizeof(names[0]) ? names[kind] : NULL;
}
