/* SPDX-License-Identifier: Apache-2.0 */
/* Names of instruments, each with a number: a hash table of fixed capacity, allocated once. A
 * feed's author chooses the names, so the hash has a key. */
#ifndef TICKBUS_PUBLISHER_NAMES_H
#define TICKBUS_PUBLISHER_NAMES_H

#include <stdint.h>

#include "bus/keyed.h"
#include "tickbus/record.h"

struct names_entry {
	char name[TB_INSTRUMENT_NAME_MAX + 1];
	uint64_t value;
};

struct names {
	struct names_entry *entries; /* in order of arrival */
	uint32_t *buckets; /* index + 1 into entries, 0: free; twice the capacity or more */
	uint32_t capacity, count, mask;
	struct keyed key;
};

/* 0, -ENOMEM or an error of keyed_open, with a message. */
int names_open(struct names *, uint32_t capacity);
void names_close(struct names *);
void names_clear(struct names *);

/* The entry's index, or -1. */
int64_t names_find(const struct names *, const char *name);
/* Adds a name that is not in the table: its index, or -1 if the table is full. */
int64_t names_add(struct names *, const char *name, uint64_t value);

#endif
