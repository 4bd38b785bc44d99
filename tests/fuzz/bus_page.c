/* SPDX-License-Identifier: Apache-2.0 */
/* A valid pulse or entry of the bus page stays within the page. */
#include <string.h>

#include "bus/bus_page.h"
#include "bus/bounds.h"
#include "tests/fuzz/fuzz.h"

#define BUS_ID 9

enum { SEAL = 1, ITS_BUS = 2 };

static void seal(struct bus_pulse *pulse, struct bus_entry *entry)
{
	pulse->check = record_hash(pulse, sizeof(*pulse), offsetof(struct bus_pulse, check),
				   record_salt(BUS_ID, 0, TAG_PULSE));
	entry->check = record_hash(entry, sizeof(*entry), offsetof(struct bus_entry, check),
				   record_salt(BUS_ID, entry->topic_id, TAG_BUS_ENTRY));
}

FUZZ_TARGET(data, size)
{
	struct bus_pulse pulse;
	struct bus_entry entry;
	uint16_t code[2];
	uint8_t how;
	uint32_t topics_max, index;

	fuzz_take(&data, &size, code, sizeof(code));
	fuzz_take(&data, &size, &how, sizeof(how));
	fuzz_take(&data, &size, &pulse, sizeof(pulse));
	fuzz_take(&data, &size, &entry, sizeof(entry));
	topics_max = code[0] % BOUND_TOPICS_MAX + 1u;
	index = code[1] % topics_max;
	if (how & ITS_BUS)
		pulse.bus_id = BUS_ID;
	if (how & SEAL)
		seal(&pulse, &entry);
	if (bus_page_verify_pulse(&pulse, BUS_ID, topics_max) == 0) {
		fuzz_deep = true;
		FUZZ_EXPECT(pulse.bus_id == BUS_ID && pulse.topics <= topics_max);
	}
	if (bus_page_verify_entry(&entry, index, BUS_ID) == 0) {
		fuzz_deep = true;
		FUZZ_EXPECT(entry.topic_id == index + 1 &&
			    (entry.state == TOPIC_LIVE || entry.state == TOPIC_ENDED));
	}
	FUZZ_EXPECT(bus_page_bytes(topics_max) >= sizeof(pulse) + topics_max * sizeof(entry));
	return 0;
}
