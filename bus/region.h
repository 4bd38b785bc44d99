/* SPDX-License-Identifier: Apache-2.0 */
/* A topic's memory: one contiguous region.
 *
 *   header      1 page, written before the region is exposed, never changed
 *   progress    64 bytes alone in a page, written by the topic's writer only
 *   directory   capacity x 32 bytes, append only
 *   last-value  capacity x slot bytes (optional)
 *   ring        slots x slot bytes, slots a power of two
 *
 * Every part begins at a page boundary, so that it can be read on its own. */
#ifndef TICKBUS_BUS_REGION_H
#define TICKBUS_BUS_REGION_H

#include "bus/record.h"

#define REGION_MAGIC               UINT64_C(0x327375626b636974) /* "tickbus2" */
#define REGION_PAGE                4096
#define REGION_FLAG_CHECKED        0x1u
#define REGION_FLAG_LAST_VALUE     0x2u
#define REGION_FLAG_MARKS_MESSAGES 0x4u /* TB_FLAG_LAST ends each input message */
#define REGION_FLAG_TIME_RISES     0x8u /* time_ns never goes back; in topics of groups only */
#define REGION_FLAGS               0xfu
#define REGION_BYTES_MAX           (UINT64_C(1) << 36) /* 64 GiB */

/* The shape of a topic: its creator requests it, and a grant repeats it. */
struct region_shape {
	uint64_t epoch;
	uint64_t fingerprint; /* of the schema */
	uint64_t slots;
	uint32_t slot_bytes;
	uint32_t capacity; /* instruments */
	uint32_t topic_id;
	uint32_t flags;
	uint32_t group; /* of topics that one thread writes in order; 0: no group, and then time
			 * need not rise. Its number, and its era above that */
};

/* A group's times rise within an era. They began again as often as the era says. */
#define REGION_GROUP_BITS 16
#define REGION_ERA_MAX    0xffffu

static inline uint32_t region_group_number(uint32_t group)
{
	return group & ((1u << REGION_GROUP_BITS) - 1);
}

static inline uint32_t region_group_era(uint32_t group)
{
	return group >> REGION_GROUP_BITS;
}

/* Offsets of the parts. Both sides compute them from the shape, and never take them from the other.
 */
struct region_layout {
	uint64_t progress;
	uint64_t directory;
	uint64_t last_value; /* 0: no last values */
	uint64_t ring;
	uint64_t bytes;
};

struct region_header {
	uint64_t magic;
	uint32_t layout_version;
	uint32_t flags;
	uint64_t epoch;
	uint32_t topic_id;
	uint32_t slot_bytes;
	uint64_t slots;
	uint32_t capacity;
	uint32_t group;
	uint64_t fingerprint;
	uint64_t progress_offset;
	uint64_t directory_offset;
	uint64_t last_value_offset;
	uint64_t ring_offset;
	uint64_t region_bytes;
	char name[TB_TOPIC_NAME_MAX + 1];
	uint64_t check;
};
static_assert(sizeof(struct region_header) == 168, "layout 2");
static_assert(offsetof(struct region_header, name) == 96, "layout 2");

/* The smallest slot for payload_bytes, 0 if they exceed TB_PAYLOAD_MAX. */
uint32_t region_slot_bytes(size_t payload_bytes);

/* 0, or -EINVAL with a message that names the field, the value and the bounds. */
int region_layout(const struct region_shape *shape, struct region_layout *layout);

/* Fills the header page of fresh memory. */
void region_header_write(void *page, const struct region_shape *shape, const char *name);

/* Compares a private copy of the header with the grant: 0, or -EPROTO with a message. */
int region_header_verify(struct region_header *copy, const struct region_shape *shape,
			 const char *name);

#endif
