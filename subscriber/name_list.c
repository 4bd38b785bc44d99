/* SPDX-License-Identifier: Apache-2.0 */
/* A list of names and patterns of instruments. An exact name is found by bisection. Patterns are
 * tried in turn: a program has few of them, and each instrument is judged once.
 *
 * NL1  An entry keeps its id while other entries come and go. So a bit by id keeps its meaning.
 * NL2  A call that fails leaves the list as it was: everything is checked before it changes. */
#include "subscriber/name_list.h"

#include <errno.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "bus/directory.h"
#include "bus/error.h"

bool name_list_is_pattern(const char *text)
{
	return strpbrk(text, "*?[") != NULL;
}

static int pattern_check(const char *text)
{
	const size_t length = strnlen(text, NAME_LIST_PATTERN_MAX + 1);

	if (length > NAME_LIST_PATTERN_MAX)
		return error_set(
			EINVAL, "instrument pattern: found \"%.32s...\", expected at most %d bytes",
			text, NAME_LIST_PATTERN_MAX);
	for (size_t i = 0; i < length; i++)
		if (text[i] < ' ' || text[i] > '~')
			return error_set(EINVAL,
					 "instrument pattern: found byte 0x%02x at %zu, expected "
					 "printable ASCII",
					 (unsigned int)(unsigned char)text[i], i);
	return 0;
}

int name_list_check(const char *const *texts, size_t count)
{
	int result = 0;

	if (!texts && count > 0)
		return error_set(EINVAL, "instrument names: found no names, expected %zu", count);
	for (size_t i = 0; i < count && result == 0; i++) {
		if (!texts[i])
			result = error_set(EINVAL, "instrument names: found NULL at %zu", i);
		else if (name_list_is_pattern(texts[i]))
			result = pattern_check(texts[i]);
		else
			result = directory_name_check(texts[i]);
	}
	return result;
}

/* -- the order -------------------------------------------------------------------------------- */

static int entry_compare(const void *one, const void *other)
{
	const struct name_entry *a = one, *b = other;

	if (a->pattern != b->pattern)
		return a->pattern ? 1 : -1;
	return strcmp(a->text, b->text);
}

/* The entry with this text, or NULL. */
static struct name_entry *entry_find(const struct name_list *list, const char *text, bool pattern)
{
	uint32_t low = pattern ? list->exact : 0, high = pattern ? list->count : list->exact;

	while (low < high) {
		const uint32_t middle = low + (high - low) / 2;
		const int order = strcmp(list->entries[middle].text, text);

		if (order == 0)
			return &list->entries[middle];
		if (order < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return NULL;
}

uint32_t name_list_behind(const struct name_list *list, const char *text)
{
	const bool pattern = name_list_is_pattern(text);
	uint32_t low = pattern ? list->exact : 0, high = pattern ? list->count : list->exact;

	while (low < high) {
		const uint32_t middle = low + (high - low) / 2;

		if (strcmp(list->entries[middle].text, text) <= 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static void exact_count(struct name_list *list)
{
	list->exact = 0;
	while (list->exact < list->count && !list->entries[list->exact].pattern)
		list->exact++;
}

/* -- ids -------------------------------------------------------------------------------------- */

static void id_give(struct name_list *list, struct name_entry *entry, uint32_t *from)
{
	while (name_list_bit(list->ids, *from))
		++*from;
	entry->id = *from;
	list->ids[*from / 64] |= UINT64_C(1) << *from % 64;
}

static void id_return(struct name_list *list, const struct name_entry *entry)
{
	list->ids[entry->id / 64] &= ~(UINT64_C(1) << entry->id % 64);
}

/* -- changes ---------------------------------------------------------------------------------- */

int name_list_open(struct name_list **out)
{
	*out = calloc(1, sizeof(**out));
	return *out ? 0 : error_set(ENOMEM, "instrument names: no memory");
}

void name_list_close(struct name_list *list)
{
	if (!list)
		return;
	for (uint32_t i = 0; i < list->count; i++)
		free(list->entries[i].text);
	free(list->entries);
	free(list);
}

static void texts_free(struct name_entry *entries, size_t count)
{
	for (size_t i = 0; i < count; i++)
		free(entries[i].text);
}

/* Copies those texts that are not in the list, each once, to `more`. Returns how many; -ENOMEM. */
static int texts_copy(const struct name_list *list, const char *const *texts, size_t count,
		      struct name_entry *more)
{
	size_t copied = 0, kept = 0;

	for (size_t i = 0; i < count; i++) {
		const bool pattern = name_list_is_pattern(texts[i]);

		if (entry_find(list, texts[i], pattern))
			continue;
		more[copied] = (struct name_entry){ strdup(texts[i]), 0, pattern };
		if (!more[copied++].text) {
			texts_free(more, copied);
			return error_set(ENOMEM, "instrument names: no memory for %zu names",
					 count);
		}
	}
	if (copied > 0)
		qsort(more, copied, sizeof(*more), entry_compare);
	for (size_t i = 0; i < copied; i++)
		if (kept > 0 && entry_compare(&more[kept - 1], &more[i]) == 0)
			free(more[i].text);
		else
			more[kept++] = more[i];
	return (int)kept;
}

int name_list_add(struct name_list *list, const char *const *texts, size_t count)
{
	struct name_entry *entries;
	uint32_t from = 0;
	int added = name_list_check(texts, count);

	if (added < 0 || count == 0)
		return added;
	entries = malloc((list->count + count) * sizeof(*entries));
	if (!entries)
		return error_set(ENOMEM, "instrument names: no memory for %zu names", count);
	added = texts_copy(list, texts, count, entries + list->count);
	if (added > 0 && (size_t)added > BOUND_NAMES_MAX - list->count) {
		texts_free(entries + list->count, (size_t)added);
		added = error_set(ENOSPC,
				  "instrument names: found %u names in the list and %d more, "
				  "expected at most %d",
				  list->count, added, BOUND_NAMES_MAX);
	}
	if (added <= 0) {
		free(entries);
		return added;
	}
	if (list->count > 0)
		memcpy(entries, list->entries, list->count * sizeof(*entries));
	for (int i = 0; i < added; i++)
		id_give(list, &entries[list->count + (uint32_t)i], &from);
	free(list->entries);
	list->entries = entries;
	list->count += (uint32_t)added;
	qsort(entries, list->count, sizeof(*entries), entry_compare);
	exact_count(list);
	return added;
}

int name_list_remove(struct name_list *list, const char *const *texts, size_t count)
{
	uint32_t kept = 0, before = list->count;
	int result = name_list_check(texts, count);

	for (size_t i = 0; i < count && result == 0; i++)
		if (!entry_find(list, texts[i], name_list_is_pattern(texts[i])))
			result = error_set(ENOENT, "instrument names: found no %s in the list",
					   texts[i]);
	if (result < 0)
		return result;
	for (size_t i = 0; i < count; i++) {
		struct name_entry *entry =
			entry_find(list, texts[i], name_list_is_pattern(texts[i]));

		if (name_list_bit(list->ids, entry->id))
			id_return(list, entry); /* a text may come twice */
	}
	for (uint32_t i = 0; i < before; i++) {
		struct name_entry *entry = &list->entries[i];

		if (name_list_bit(list->ids, entry->id))
			list->entries[kept++] = *entry;
		else
			free(entry->text);
	}
	list->count = kept;
	exact_count(list);
	return (int)(before - kept);
}

/* -- matching --------------------------------------------------------------------------------- */

static void match_note(uint64_t *matched, const struct name_entry *entry)
{
	matched[entry->id / 64] |= UINT64_C(1) << entry->id % 64;
}

bool name_list_match(const struct name_list *list, const char *name,
		     uint64_t matched[NAME_LIST_WORDS])
{
	const struct name_entry *entry = entry_find(list, name, false);
	bool found = entry != NULL;

	if (entry)
		match_note(matched, entry);
	for (uint32_t i = list->exact; i < list->count; i++) {
		entry = &list->entries[i];
		if (found && name_list_bit(matched, entry->id))
			continue;
		if (fnmatch(entry->text, name, 0) == 0) {
			match_note(matched, entry);
			found = true;
		}
	}
	return found;
}
