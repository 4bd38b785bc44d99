/* SPDX-License-Identifier: Apache-2.0 */
/* Layout of a topic's memory. Both sides compute it from the shape; a header that differs is
 * refused. */
#include "bus/region.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "bus/directory.h"
#include "bus/bounds.h"
#include "bus/error.h"

#define PROGRESS_AREA REGION_PAGE

static uint64_t page_up(uint64_t bytes)
{
	return (bytes + REGION_PAGE - 1) / REGION_PAGE * REGION_PAGE;
}

uint32_t region_slot_bytes(size_t payload_bytes)
{
	if (payload_bytes > TB_PAYLOAD_MAX)
		return 0;
	return (uint32_t)((RECORD_HEADER_BYTES + payload_bytes + 63) / 64 * 64);
}

static int shape_check(const struct region_shape *shape)
{
	if (shape->slot_bytes < SLOT_BYTES_MIN || shape->slot_bytes > SLOT_BYTES_MAX ||
	    shape->slot_bytes % 64)
		return error_set(EINVAL,
				 "slot_bytes: found %" PRIu32 ", expected a multiple of 64 from %d "
				 "to %d",
				 shape->slot_bytes, SLOT_BYTES_MIN, SLOT_BYTES_MAX);
	if (shape->slots < BOUND_SLOTS_MIN || shape->slots > BOUND_SLOTS_MAX ||
	    (shape->slots & (shape->slots - 1)))
		return error_set(EINVAL,
				 "slots: found %" PRIu64 ", expected a power of two from %d to %u",
				 shape->slots, BOUND_SLOTS_MIN, BOUND_SLOTS_MAX);
	if (shape->capacity < 1 || shape->capacity > BOUND_INSTRUMENTS_MAX)
		return error_set(EINVAL, "instruments: found %" PRIu32 ", expected 1 to %u",
				 shape->capacity, BOUND_INSTRUMENTS_MAX);
	if (shape->flags & ~REGION_FLAGS)
		return error_set(EINVAL, "flags: found 0x%" PRIx32 ", expected none but 0x%x",
				 shape->flags, REGION_FLAGS);
	if ((shape->group != 0) != ((shape->flags & REGION_FLAG_TIME_RISES) != 0))
		return error_set(EINVAL,
				 "group: found %" PRIu32 " with flags 0x%" PRIx32
				 ", expected a group above 0 with flag 0x%x, or 0 without it",
				 shape->group, shape->flags, REGION_FLAG_TIME_RISES);
	if (shape->epoch == 0 || shape->topic_id == 0)
		return error_set(EINVAL, "epoch and topic id: found 0, expected a number above 0");
	return 0;
}

int region_layout(const struct region_shape *shape, struct region_layout *layout)
{
	int result = shape_check(shape);

	if (result < 0)
		return result;
	layout->progress = REGION_PAGE;
	layout->directory = layout->progress + PROGRESS_AREA;
	layout->ring =
		layout->directory + page_up((uint64_t)shape->capacity * DIRECTORY_ENTRY_BYTES);
	layout->last_value = 0;
	if (shape->flags & REGION_FLAG_LAST_VALUE) {
		layout->last_value = layout->ring;
		layout->ring += page_up((uint64_t)shape->capacity * shape->slot_bytes);
	}
	layout->bytes = layout->ring + page_up(shape->slots * shape->slot_bytes);
	if (layout->bytes > REGION_BYTES_MAX)
		return error_set(EINVAL,
				 "memory: slots, instruments and slot bytes need %" PRIu64
				 " bytes, expected at most %" PRIu64,
				 layout->bytes, (uint64_t)REGION_BYTES_MAX);
	return 0;
}

void region_header_write(void *page, const struct region_shape *shape, const char *name)
{
	struct region_header *header = page;
	struct region_layout layout = { 0 };

	region_layout(shape, &layout);
	*header = (struct region_header){
		.magic = REGION_MAGIC,
		.layout_version = LAYOUT_VERSION,
		.flags = shape->flags,
		.epoch = shape->epoch,
		.topic_id = shape->topic_id,
		.slot_bytes = shape->slot_bytes,
		.slots = shape->slots,
		.capacity = shape->capacity,
		.group = shape->group,
		.fingerprint = shape->fingerprint,
		.progress_offset = layout.progress,
		.directory_offset = layout.directory,
		.last_value_offset = layout.last_value,
		.ring_offset = layout.ring,
		.region_bytes = layout.bytes,
	};
	memcpy(header->name, name, strnlen(name, TB_TOPIC_NAME_MAX));
	header->check = record_hash(header, sizeof(*header), offsetof(struct region_header, check),
				    record_salt(shape->epoch, shape->topic_id, TAG_HEADER));
}

int region_header_verify(struct region_header *copy, const struct region_shape *shape,
			 const char *name)
{
	struct region_header expected;

	if (copy->magic != REGION_MAGIC)
		return error_set(EPROTO,
				 "topic %s: memory begins with 0x%016" PRIx64
				 ", expected the magic of a tickbus topic",
				 name, copy->magic);
	if (copy->layout_version != LAYOUT_VERSION)
		return error_set(EPROTO,
				 "topic %s: memory has layout %" PRIu32 ", expected layout %d",
				 name, copy->layout_version, LAYOUT_VERSION);
	region_header_write(&expected, shape, name);
	if (memcmp(copy, &expected, sizeof(expected)) != 0)
		return error_set(EPROTO,
				 "topic %s: the memory's header contradicts the grant. "
				 "Found epoch %016" PRIx64 ", %" PRIu64 " slots of %" PRIu32
				 " bytes, %" PRIu64 " bytes in all. "
				 "Expected epoch %016" PRIx64 ", %" PRIu64 " slots of %" PRIu32
				 " bytes, %" PRIu64 " bytes in all",
				 name, copy->epoch, copy->slots, copy->slot_bytes,
				 copy->region_bytes, expected.epoch, expected.slots,
				 expected.slot_bytes, expected.region_bytes);
	return 0;
}
