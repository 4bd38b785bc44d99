/* SPDX-License-Identifier: Apache-2.0 */
/* A valid progress line contradicts neither itself nor the topic. */
#include <string.h>

#include "bus/progress.h"
#include "tests/fuzz/fuzz.h"

#define EPOCH 7

enum { SEAL = 1, CHECKED = 2, ITS_EPOCH = 4, GROUP = 8 };

FUZZ_TARGET(data, size)
{
	const uint64_t salt = record_salt(EPOCH, 1, TAG_PROGRESS);
	struct progress_line line;
	struct progress copy;
	uint8_t code[3];
	struct region_shape shape = { .epoch = EPOCH };
	uint64_t slots;
	uint32_t capacity;

	fuzz_take(&data, &size, code, sizeof(code));
	fuzz_take(&data, &size, &copy, sizeof(copy));
	slots = UINT64_C(64) << code[0] % 19;
	capacity = 1u << code[1] % 21;
	shape.slots = slots;
	shape.capacity = capacity;
	shape.flags = code[2] & CHECKED ? REGION_FLAG_CHECKED : 0;
	shape.group = (code[2] & GROUP) != 0;
	if (code[2] & ITS_EPOCH)
		copy.epoch = EPOCH;
	if (code[2] & SEAL)
		copy.check =
			record_hash(&copy, sizeof(copy), offsetof(struct progress, check), salt);
	memcpy(&line, &copy, sizeof(line));
	progress_load(&line, &copy);
	if (progress_verify(&copy, &shape, salt) < 0)
		return 0;
	fuzz_deep = true;
	FUZZ_EXPECT(copy.epoch == EPOCH && copy.first > 0 && copy.instruments <= capacity);
	FUZZ_EXPECT(copy.state == TOPIC_LIVE || copy.state == TOPIC_ENDED);
	FUZZ_EXPECT(copy.quality <= TB_QUALITY_REBUILDING);
	FUZZ_EXPECT(copy.complete_ns == 0 || shape.group != 0);
	FUZZ_EXPECT(progress_oldest(&copy, slots) >= copy.first);
	/* Head and gaps are so small that adding two rings cannot wrap. */
	FUZZ_EXPECT(copy.head + 2 * slots >= copy.head);
	FUZZ_EXPECT(progress_oldest(&copy, slots) + 2 * slots >= 2 * slots);
	if (code[2] & CHECKED) { /* no gap goes beyond the head */
		FUZZ_EXPECT(copy.head <= copy.reserved && copy.reserved - copy.head <= slots);
		FUZZ_EXPECT(progress_oldest(&copy, slots) - 1 <= copy.head);
	}
	return 0;
}
