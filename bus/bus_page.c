/* SPDX-License-Identifier: Apache-2.0 */
/* The bus page. The pulse and each entry are stored and checked on their own. */
#include "bus/bus_page.h"

#include <errno.h>

#include "bus/region.h"
#include "bus/words.h"

size_t bus_page_entry_offset(uint32_t index)
{
	return sizeof(struct bus_pulse) + (size_t)index * sizeof(struct bus_entry);
}

size_t bus_page_bytes(uint32_t topics_max)
{
	return (bus_page_entry_offset(topics_max) + REGION_PAGE - 1) / REGION_PAGE * REGION_PAGE;
}

void bus_page_store_pulse(void *page, struct bus_pulse *pulse)
{
	pulse->check = record_hash(pulse, sizeof(*pulse), offsetof(struct bus_pulse, check),
				   record_salt(pulse->bus_id, 0, TAG_PULSE));
	words_store(page, pulse, sizeof(*pulse));
}

void bus_page_store_entry(void *page, uint32_t index, struct bus_entry *entry, uint64_t bus_id)
{
	entry->check = record_hash(entry, sizeof(*entry), offsetof(struct bus_entry, check),
				   record_salt(bus_id, entry->topic_id, TAG_BUS_ENTRY));
	words_store((char *)page + bus_page_entry_offset(index), entry, sizeof(*entry));
}

int bus_page_verify_pulse(struct bus_pulse *copy, uint64_t bus_id, uint32_t topics_max)
{
	if (copy->bus_id != bus_id || copy->topics > topics_max)
		return -EAGAIN;
	if (record_hash(copy, sizeof(*copy), offsetof(struct bus_pulse, check),
			record_salt(bus_id, 0, TAG_PULSE)) != copy->check)
		return -EAGAIN;
	return 0;
}

int bus_page_verify_entry(struct bus_entry *copy, uint32_t index, uint64_t bus_id)
{
	if (copy->topic_id != index + 1 ||
	    (copy->state != TOPIC_LIVE && copy->state != TOPIC_ENDED))
		return -EAGAIN;
	if (record_hash(copy, sizeof(*copy), offsetof(struct bus_entry, check),
			record_salt(bus_id, copy->topic_id, TAG_BUS_ENTRY)) != copy->check)
		return -EAGAIN;
	return 0;
}
