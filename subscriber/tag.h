/* SPDX-License-Identifier: Apache-2.0 */
/* The tag of a READ: its kind, and what it is for. That is the source's slot in the table, with the
 * half of the landing or its chunk of values; or a run of entries. Packed where READs are posted,
 * unpacked where they complete. */
#ifndef TICKBUS_SUBSCRIBER_TAG_H
#define TICKBUS_SUBSCRIBER_TAG_H

#include <stdint.h>

enum read_kind {
	READ_NONE = 0,
	READ_HEADER,
	READ_PROGRESS,
	READ_NAMES,
	READ_SLOTS,
	READ_PULSE,
	READ_ENTRIES,
	READ_VALUES,    /* of last values */
	READ_DIRECTORY, /* names that no record waits for */
	READ_START,     /* a slot, to find the start of TB_FROM_TIME */
	READ_GET        /* for tb_get and its relatives, which wait for it */
};

struct tag {
	enum read_kind kind;
	unsigned int half;
	uint64_t slot;
};

static inline uint64_t tag_pack(enum read_kind kind, uint32_t slot, unsigned int half)
{
	return (uint64_t)slot << 16 | half << 8 | (uint64_t)kind;
}

static inline struct tag tag_unpack(uint64_t tag)
{
	return (struct tag){ .kind = (enum read_kind)(tag & 0xff),
			     .half = tag >> 8 & 0xff,
			     .slot = tag >> 16 };
}

static inline uint64_t tag_pack_entries(uint32_t first, uint32_t count)
{
	return tag_pack(READ_ENTRIES, first << 16 | count, 0);
}

static inline uint32_t tag_first_entry(struct tag tag)
{
	return (uint32_t)tag.slot >> 16;
}

static inline uint32_t tag_entry_count(struct tag tag)
{
	return tag.slot & 0xffff;
}

#endif
