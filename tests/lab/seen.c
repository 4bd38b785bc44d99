/* SPDX-License-Identifier: Apache-2.0 */
/* Wraps record_take_landed and pull_read_landed. With UNCHECKED, copies are accepted without
 * comparing their check. Then wrong records must be delivered, or the test could not find any. */
#include "tests/lab/seen.h"

#include "bus/record.h"
#include "tickbus/subscriber.h"

#ifdef UNCHECKED
#define COMPARED false
#else
#define COMPARED true
#endif

int __real_record_take_landed(const void *landed, size_t slot_bytes, uint64_t sequence,
			      struct record *copy, uint64_t salt);
int __wrap_record_take_landed(const void *landed, size_t slot_bytes, uint64_t sequence,
			      struct record *copy, uint64_t salt);
void __real_pull_read_landed(struct tb_source *source, unsigned int half, int status);
void __wrap_pull_read_landed(struct tb_source *source, unsigned int half, int status);

struct seen *seen;

int __wrap_record_take_landed(const void *landed, size_t slot_bytes, uint64_t sequence,
			      struct record *copy, uint64_t salt)
{
	const int whole = __real_record_take_landed(landed, slot_bytes, sequence, copy, salt);
	const int seems = record_verify(copy, slot_bytes, sequence, false, 0);

	seen->mixed += whole < 0 && seems == 0;
	return COMPARED ? whole : seems;
}

void __wrap_pull_read_landed(struct tb_source *source, unsigned int half, int status)
{
	seen->reads += status == 0;
	__real_pull_read_landed(source, half, status);
}
