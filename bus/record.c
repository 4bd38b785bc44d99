/* SPDX-License-Identifier: Apache-2.0 */
/* Writing a slot, copying one, and proving a copy: the only place where a record becomes trusted.
 *
 * One thread writes a slot; any number of processes read it, through shared memory (record_copy) or
 * over a network that promises no order at all.
 *
 * W1  sequence 0, barrier, body.   Pairs with R2: a reader that saw one word of the new body finds
 *     the sequence changed when it looks again.
 * W2  body, barrier, sequence n.   Pairs with R1: a reader that saw n first sees the whole body of
 *     n, or of a later record.
 * R1  acquire the sequence, then copy.
 * R2  copy, acquire fence, then the sequence again.
 * Neither holds for a copy made by a NIC: there only the check proves. */
#include "bus/record.h"

#include <errno.h>
#include <string.h>

#include "bus/barrier.h"
#include "bus/hash.h"

#define META_WORD    2
#define PAYLOAD_WORD (RECORD_HEADER_BYTES / 8)

static_assert(offsetof(struct record, instrument) == META_WORD * 8, "the word that has the length");

static size_t record_words(size_t length)
{
	return PAYLOAD_WORD + (length + 7) / 8;
}

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

void record_store(struct slot *slot, struct record *record, bool checked, uint64_t salt)
{
	const size_t words = record_words(record->length);
	uint64_t word;

	for (size_t i = record->length; i % 8; i++)
		record->payload[i] = 0;
	record->check = checked ? record_hash(record, RECORD_HEADER_BYTES + record->length,
					      offsetof(struct record, check), salt)
				: 0;

	atomic_store_explicit(&slot->word[0], 0, memory_order_relaxed);
	barrier_store(); /* W1 */
	for (size_t i = 1; i < words; i++) {
		memcpy(&word, (char *)record + i * 8, sizeof(word));
		atomic_store_explicit(&slot->word[i], word, memory_order_relaxed);
	}
	barrier_store(); /* W2 */
	atomic_store_explicit(&slot->word[0], record->sequence, memory_order_relaxed);
}

int record_copy(const struct slot *slot, size_t slot_bytes, uint64_t sequence, struct record *copy,
		uint64_t *found)
{
	uint64_t word;
	size_t words;

	*found = atomic_load_explicit(&slot->word[0], memory_order_acquire); /* R1 */
	if (*found != sequence)
		return -EAGAIN;

	word = atomic_load_explicit(&slot->word[META_WORD], memory_order_relaxed);
	memcpy(&copy->instrument, &word, sizeof(word));
	if (copy->length > slot_bytes - RECORD_HEADER_BYTES)
		return -EAGAIN;
	words = record_words(copy->length);

	copy->sequence = sequence;
	for (size_t i = 1; i < words; i++) {
		if (i == META_WORD)
			continue; /* its length bounds this loop: it is not read a second time */
		word = atomic_load_explicit(&slot->word[i], memory_order_relaxed);
		memcpy((char *)copy + i * 8, &word, sizeof(word));
	}
	atomic_thread_fence(memory_order_acquire); /* R2 */
	if (atomic_load_explicit(&slot->word[0], memory_order_relaxed) != sequence)
		return -EAGAIN;
	return 0;
}

int record_verify(struct record *copy, size_t slot_bytes, uint64_t sequence, bool checked,
		  uint64_t salt)
{
	if (copy->sequence == 0 || (sequence != 0 && copy->sequence != sequence))
		return -EAGAIN;
	if (copy->length > slot_bytes - RECORD_HEADER_BYTES || copy->kind == 0)
		return -EAGAIN;
	if (!checked)
		return 0;
	if (record_hash(copy, RECORD_HEADER_BYTES + copy->length, offsetof(struct record, check),
			salt) != copy->check)
		return -EAGAIN;
	return 0;
}

TB_API const char *tb_kind_name(uint8_t kind)
{
	static const char *const names[] = {
		[TB_KIND_UPDATE] = "update", [TB_KIND_CORRECTION] = "correction",
		[TB_KIND_CANCEL] = "cancel", [TB_KIND_CLEAR] = "clear",
		[TB_KIND_STATUS] = "status", [TB_KIND_HOLE] = "hole",
	};

	return kind < sizeof(names) / sizeof(names[0]) ? names[kind] : NULL;
}
