/* SPDX-License-Identifier: Apache-2.0 */
/* A list of names and patterns of instruments, as a program gave it. Knows no topic. */
#ifndef TICKBUS_SUBSCRIBER_NAME_LIST_H
#define TICKBUS_SUBSCRIBER_NAME_LIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bus/bounds.h"

#define NAME_LIST_PATTERN_MAX 127 /* bytes in a pattern */
#define NAME_LIST_WORDS       (BOUND_NAMES_MAX / 64)

struct name_entry {
	char *text;
	uint32_t id; /* below BOUND_NAMES_MAX; stays as long as the entry does */
	bool pattern;
};

struct name_list {
	struct name_entry *entries; /* exact names first, then patterns, each sorted by text */
	uint32_t count;
	uint32_t exact;                /* entries below this are exact names */
	uint64_t ids[NAME_LIST_WORDS]; /* a bit for each id: an entry has it */
};

/* 0, or -ENOMEM with a message. */
int name_list_open(struct name_list **);
/* Takes NULL. */
void name_list_close(struct name_list *);
/* 0, or -EINVAL with a message if a text is neither a name nor a pattern. */
int name_list_check(const char *const *texts, size_t count);
/* A pattern has *, ? or [ in it; other texts are exact names. */
bool name_list_is_pattern(const char *text);
/* Adds texts. Returns how many were not in the list yet. -EINVAL, -ENOSPC or -ENOMEM, with a
 * message; the list is then as before. */
int name_list_add(struct name_list *, const char *const *texts, size_t count);
/* Removes texts. Returns how many. -EINVAL, or -ENOENT if a text is not in the list, with a
 * message; the list is then as before. */
int name_list_remove(struct name_list *, const char *const *texts, size_t count);
/* The place of the first entry behind this text, which need not be in the list. */
uint32_t name_list_behind(const struct name_list *, const char *text);
/* Whether an entry matches this name of an instrument. Sets the bit of each entry that does in
 * `matched`, by id. */
bool name_list_match(const struct name_list *, const char *name, uint64_t matched[NAME_LIST_WORDS]);

static inline bool name_list_bit(const uint64_t *bits, uint32_t id)
{
	return bits[id / 64] >> id % 64 & 1;
}

#endif
