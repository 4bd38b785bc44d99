/* SPDX-License-Identifier: Apache-2.0 */
/* Names of instruments in order of arrival, each with a number, for a fixed capacity. */
#ifndef TICKBUS_PUBLISHER_NAMES_H
#define TICKBUS_PUBLISHER_NAMES_H

#include <stdint.h>

#include "bus/name_index.h"
#include "tickbus/record.h"

struct names_entry {
	char name[TB_INSTRUMENT_NAME_MAX + 1];
	uint64_t value;
};

struct names {
	struct names_entry *entries;
	uint32_t capacity, count;
	struct name_index index;
};

/* 0, -ENOMEM or an error of the system's random numbers, with a message. */
int names_open(struct names *, uint32_t capacity);
void names_close(struct names *);
void names_clear(struct names *);

/* The entry's index, or -1. */
int64_t names_find(const struct names *, const char *name);
/* Adds a name that is not in the table: its index, or -1 if the table is full. */
int64_t names_add(struct names *, const char *name, uint64_t value);

#endif
