/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/choose.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tickbus/record.h"

#define INTERVAL_US_MAX 60000000 /* the library's limit */

/* A whole number and its unit, in microseconds. 0: the text is no interval, or out of bounds. */
static uint32_t interval_us(const char *text)
{
	static const struct {
		const char *word;
		uint32_t us;
	} units[] = { { "us", 1 }, { "ms", 1000 }, { "s", 1000000 } };
	char *end;
	uint64_t number;

	errno = 0;
	number = strtoull(text, &end, 10);
	if (*text < '0' || *text > '9' || errno != 0 || number > INTERVAL_US_MAX)
		return 0;
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
		if (!strcmp(end, units[i].word) && number * units[i].us <= INTERVAL_US_MAX)
			return (uint32_t)number * units[i].us;
	return 0;
}

static int interval_take(const struct command_call *call, const char *option, uint32_t poll,
			 uint32_t *us)
{
	const bool each = !strcmp(call->value, "poll");

	*us = each ? poll : interval_us(call->value);
	if (*us > 0 || each)
		return 0;
	return command_wrong(call,
			     "--%s: found \"%s\", expected poll, or a whole number with us, ms or "
			     "s, from 1us to 60s",
			     option, call->value);
}

/* The kind with this name or number, or -1. */
static int kind_find(const char *word)
{
	char *end;
	long number;

	for (int kind = 0; kind <= UINT8_MAX; kind++) {
		const char *name = tb_kind_name((uint8_t)kind);

		if (name && !strcmp(name, word))
			return kind;
	}
	number = strtol(word, &end, 10);
	return *word >= '0' && *word <= '9' && !*end && number >= 1 && number <= UINT8_MAX
		       ? (int)number
		       : -1;
}

static int kinds_take(struct choose *choose, const struct command_call *call)
{
	const char *text = call->value;

	while (text) {
		const char *end = strchrnul(text, ',');
		char word[32];
		int kind;

		snprintf(word, sizeof(word), "%.*s", (int)(end - text), text);
		kind = kind_find(word);
		if (kind < 0)
			return command_wrong(call,
					     "--exempt: found \"%.*s\", expected the name of a "
					     "kind, as cancel or status, or a number from 1 to 255",
					     (int)(end - text), text);
		if (!memchr(choose->exempt_kinds, kind, choose->exempt_kind_count))
			choose->exempt_kinds[choose->exempt_kind_count++] = (uint8_t)kind;
		text = *end ? end + 1 : NULL;
	}
	return 0;
}

static int topic_take(struct choose *choose, const struct command_call *call)
{
	const size_t most = sizeof(choose->exempt_topics) / sizeof(choose->exempt_topics[0]);

	if (choose->exempt_topic_count == most)
		return command_wrong(call, "found more than %zu --exempt-topic", most);
	choose->exempt_topics[choose->exempt_topic_count++] = call->value;
	return 0;
}

int choose_take(struct choose *choose, const struct command_call *call, int letter)
{
	switch (letter) {
	case 'n':
		return wanted_take(&choose->names, call);
	case 'N':
		choose->required = true;
		return 0;
	case 'W':
		choose->watch = true;
		return interval_take(call, "watch", 0, &choose->look_us);
	case 'C':
		return interval_take(call, "conflate", TB_CONFLATE_POLL, &choose->conflate_us);
	case 'e':
		return kinds_take(choose, call);
	case 'E':
		return topic_take(choose, call);
	case 'M':
		choose->merge = true;
		return 0;
	default:
		return CHOOSE_NOT_MINE;
	}
}

/* -- which options go together ------------------------------------------------------------------
 */

static int refuse(const struct command_call *call, const char *option, const char *other,
		  const char *why)
{
	return command_wrong(call, "found %s with %s, expected one of them: %s", option, other,
			     why);
}

static int lonely_check(const struct choose *choose, const struct command_call *call)
{
	const bool names = choose->names.source_count > 0;

	if (choose->required && !names)
		return command_wrong(call, "found --names-required without --names, expected both");
	if (choose->watch && !names)
		return command_wrong(call, "found --watch without --names, expected both; "
					   "--names '*' watches all instruments");
	if (!choose->conflate_us && choose->exempt_kind_count)
		return command_wrong(call, "found --exempt without --conflate, expected both");
	if (!choose->conflate_us && choose->exempt_topic_count)
		return command_wrong(call,
				     "found --exempt-topic without --conflate, expected both");
	return 0;
}

static int watch_check(const struct choose *choose, const struct command_call *call,
		       const struct tb_subscription_options *what)
{
	if (choose->conflate_us)
		return refuse(call, "--watch", "--conflate",
			      "a watch list delivers newest values in any case");
	if (choose->merge)
		return refuse(call, "--watch", "--merge", "values have no common order");
	if (what->flags & TB_STRICT)
		return refuse(call, "--watch", "--strict",
			      "no progress line bounds a stored value");
	if (what->from != TB_FROM_NEWEST)
		return refuse(call, "--watch", "another start than --from newest",
			      "a watch list begins with the present values");
	if (what->gap != TB_GAP_OLDEST)
		return refuse(call, "--watch", "--gap", "a watch list reads no records");
	return 0;
}

static int conflate_check(const struct choose *choose, const struct command_call *call,
			  const struct tb_subscription_options *what)
{
	if (choose->merge)
		return refuse(call, "--conflate", "--merge", "a merge leaves no record out");
	if (what->flags & TB_STRICT)
		return refuse(call, "--conflate", "--strict",
			      "no progress line bounds a stored value");
	if (what->gap != TB_GAP_OLDEST)
		return refuse(call, "--conflate", "--gap",
			      "after a gap the newest values are printed in any case");
	return 0;
}

static int merge_check(const struct command_call *call, const struct tb_subscription_options *what)
{
	if (what->flags & TB_STRICT)
		return refuse(call, "--merge", "--strict", "a merge delivers record by record");
	if (what->gap == TB_GAP_IMAGE)
		return refuse(call, "--merge", "--gap image", "a merge begins with one image");
	if (what->from == TB_FROM_SEQUENCE)
		return refuse(call, "--merge", "--from with a sequence",
			      "each topic has its own sequences");
	return 0;
}

int choose_fill(struct choose *choose, const struct command_call *call,
		struct tb_subscription_options *what)
{
	int status = lonely_check(choose, call);

	if (status == 0 && choose->watch)
		status = watch_check(choose, call, what);
	if (status == 0 && choose->conflate_us)
		status = conflate_check(choose, call, what);
	if (status == 0 && choose->merge)
		status = merge_check(call, what);
	if (status == 0 && choose->names.source_count > 0 && choose->names.chosen.count == 0)
		fputs("tickbus cat: --names: found no names, so no records are printed\n", stderr);
	if (choose->names.source_count > 0) {
		static const char *const nothing[] = { "" }; /* for a file without names */

		what->names = choose->names.chosen.count > 0
				      ? (const char *const *)choose->names.chosen.words
				      : nothing;
		what->name_count = choose->names.chosen.count;
	}
	what->flags |= (choose->required ? TB_NAMES_REQUIRED : 0) | (choose->watch ? TB_WATCH : 0) |
		       (choose->merge ? TB_MERGE : 0);
	what->look_us = choose->look_us;
	what->conflate_us = choose->conflate_us;
	what->exempt_kinds = choose->exempt_kinds;
	what->exempt_kind_count = choose->exempt_kind_count;
	what->exempt_topics = choose->exempt_topics;
	what->exempt_topic_count = choose->exempt_topic_count;
	return status;
}

bool choose_leaves_out(const struct choose *choose)
{
	return choose->names.source_count > 0 || choose->conflate_us;
}

/* -- names that change --------------------------------------------------------------------------
 */

/* Finds the word that the library does not take. It tries each, and removes it again. */
static const char *word_refused(struct tb_subscription *subscription, const char **words,
				size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (tb_names_add(subscription, &words[i], 1) < 0)
			return words[i];
		tb_names_remove(subscription, &words[i], 1);
	}
	return NULL;
}

/* Prints the library's reason, and which line of which file has the word. */
static void refusal_print(const struct choose *choose, const struct command_call *call,
			  const char *word)
{
	char reason[256];
	size_t line;
	const char *file;

	snprintf(reason, sizeof(reason), "%s", tb_error());
	file = word ? wanted_place(&choose->names, call, word, &line) : NULL;
	if (file)
		fprintf(stderr, "tickbus cat: --names: %s:%zu: %s; the names stay\n", file, line,
			reason);
	else
		fprintf(stderr, "tickbus cat: --names: %s; the names stay\n", reason);
}

/* Adds before it removes: if names cannot be added, the list is as it was. */
static int change(const struct choose *choose, const struct command_call *call,
		  struct tb_subscription *subscription, const struct wanted_list *after,
		  const char **words)
{
	const struct wanted_list *before = &choose->names.chosen;
	const size_t added = wanted_missing(after, before, words);
	int result = added > 0 ? tb_names_add(subscription, words, added) : 0;
	size_t removed;

	if (result < 0) {
		refusal_print(choose, call,
			      result == -ENOENT ? word_refused(subscription, words, added) : NULL);
		return result;
	}
	removed = wanted_missing(before, after, words);
	result = removed > 0 ? tb_names_remove(subscription, words, removed) : 0;
	if (result < 0) {
		refusal_print(choose, call, NULL);
		return result;
	}
	fprintf(stderr, "tickbus cat: names: %zu added, %zu removed, now %zu\n", added, removed,
		after->count);
	return 0;
}

void choose_again(struct choose *choose, const struct command_call *call,
		  struct tb_subscription *subscription)
{
	struct wanted_list fresh;
	const char **words;
	int result;

	if (wanted_read(&choose->names, call, &fresh) < 0)
		return;
	words = calloc(fresh.count + choose->names.chosen.count + 1, sizeof(*words));
	if (!words) {
		fputs("tickbus cat: --names: out of memory\n", stderr);
		wanted_list_free(&fresh);
		return;
	}
	result = change(choose, call, subscription, &fresh, words);
	free(words);
	if (result < 0) {
		wanted_list_free(&fresh);
		return;
	}
	wanted_list_free(&choose->names.chosen);
	choose->names.chosen = fresh;
}

void choose_free(struct choose *choose)
{
	wanted_free(&choose->names);
}
