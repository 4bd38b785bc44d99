/* SPDX-License-Identifier: Apache-2.0 */
/* Linked in front of record_verify: copies are taken without comparing their check. A program that
 * has this must deliver wrong records, else it could not see any. */
#include "bus/record.h"

int __real_record_verify(struct record *copy, size_t slot_bytes, uint64_t sequence, bool checked,
			 uint64_t salt);
int __wrap_record_verify(struct record *copy, size_t slot_bytes, uint64_t sequence, bool checked,
			 uint64_t salt);

int __wrap_record_verify(struct record *copy, size_t slot_bytes, uint64_t sequence, bool checked,
			 uint64_t salt)
{
	(void)checked;
	return __real_record_verify(copy, slot_bytes, sequence, false, salt);
}
