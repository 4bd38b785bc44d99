/* SPDX-License-Identifier: Apache-2.0 */
/* A topic's directory: the names of its instruments, append only.
 *
 * D-I1  Entry i is whole before any progress line with instruments > i is written. */
#ifndef TICKBUS_BUS_DIRECTORY_H
#define TICKBUS_BUS_DIRECTORY_H

#include "bus/record.h"

#define DIRECTORY_ENTRY_BYTES 32

struct directory_entry {
	char name[TB_INSTRUMENT_NAME_MAX]; /* zero-padded */
	uint64_t check;
};
static_assert(sizeof(struct directory_entry) == DIRECTORY_ENTRY_BYTES, "layout 2");

/* 0, or -EINVAL with a message: 1 to 24 bytes, printable ASCII without a space at either end. */
int directory_name_check(const char *name);

/* Writes entry `index` of the directory at base. The index is part of the check. */
void directory_store(void *base, uint32_t index, const char *name, uint64_t salt);

/* Checks a private copy of an entry and writes its name, NUL-terminated: 0 or -EAGAIN. */
int directory_verify(struct directory_entry *copy, uint32_t index, uint64_t salt,
		     char name[TB_INSTRUMENT_NAME_MAX + 1]);

#endif
