/* SPDX-License-Identifier: Apache-2.0 */
#include "bus/fault/fault_plan.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "bus/error.h"

#define DECIMALS_MAX 9
#define SEED_BIT     (1u << FAULT_KINDS) /* of the keys that were given; below it the faults */

static const char *const names[FAULT_KINDS] = {
	[FAULT_DROP] = "drop",
	[FAULT_DUP] = "dup",
	[FAULT_REORDER] = "reorder",
	[FAULT_DELAY] = "delay",
	[FAULT_TEAR] = "tear",
	[FAULT_FAIL] = "fail",
	[FAULT_DISCONNECT] = "disconnect",
	[FAULT_STALL] = "stall",
	[FAULT_FREEZE] = "freeze",
};

/* A part of the address. */
struct part {
	const char *text;
	size_t length;
};

const char *fault_name(enum fault_kind kind)
{
	return names[kind];
}

static bool part_is(const struct part *part, const char *word)
{
	return strlen(word) == part->length && memcmp(part->text, word, part->length) == 0;
}

static bool seed_read(const struct part *part, uint64_t *seed)
{
	*seed = 0;
	for (size_t i = 0; i < part->length; i++)
		if (!isdigit((unsigned char)part->text[i]) ||
		    __builtin_mul_overflow(*seed, 10, seed) ||
		    __builtin_add_overflow(*seed, (uint64_t)(part->text[i] - '0'), seed))
			return false;
	return part->length > 0;
}

/* Digits with or without a point: strtod would take the point of the program's locale. */
static bool chance_read(const struct part *part, uint32_t *billionths)
{
	uint64_t found = 0, decimals = 0;
	bool point = false;

	if (part->length == 0 || !isdigit((unsigned char)part->text[0]) ||
	    !isdigit((unsigned char)part->text[part->length - 1]))
		return false;
	for (size_t i = 0; i < part->length; i++) {
		if (part->text[i] == '.' && !point) {
			point = true;
			continue;
		}
		if (!isdigit((unsigned char)part->text[i]) || found > FAULT_BILLION ||
		    decimals == DECIMALS_MAX)
			return false;
		found = found * 10 + (uint64_t)(part->text[i] - '0');
		decimals += point;
	}
	for (; decimals < DECIMALS_MAX && found <= FAULT_BILLION; decimals++)
		found *= 10;
	*billionths = (uint32_t)found;
	return found <= FAULT_BILLION;
}

static enum fault_kind kind_of(const struct part *key)
{
	enum fault_kind kind = 0;

	while (kind < FAULT_KINDS && !part_is(key, names[kind]))
		kind++;
	return kind;
}

static int pair_parse(const char *text, const struct part *key, const struct part *value,
		      struct fault_plan *plan, unsigned int *given)
{
	const enum fault_kind kind = kind_of(key);
	const bool is_seed = kind == FAULT_KINDS && part_is(key, "seed");
	bool valid;

	if (kind == FAULT_KINDS && !is_seed)
		return error_set(EINVAL,
				 "address fault:%.100s: found \"%.*s\", expected seed, drop, dup, "
				 "reorder, delay, tear, fail, disconnect, stall or freeze",
				 text, (int)key->length, key->text);
	if (*given & 1u << kind) /* the seed's bit is above those of the faults */
		return error_set(EINVAL, "address fault:%.100s: %.*s: found twice, expected once",
				 text, (int)key->length, key->text);
	*given |= 1u << kind;
	valid = is_seed ? seed_read(value, &plan->seed)
			: chance_read(value, &plan->billionths[kind]);
	if (valid)
		return 0;
	return error_set(EINVAL, "address fault:%.100s: %.*s: found \"%.*s\", expected %s", text,
			 (int)key->length, key->text, (int)value->length, value->text,
			 is_seed ? "a number from 0 to 18446744073709551615"
				 : "a probability from 0 to 1 with at most 9 decimals, as 0.01");
}

static int pairs_parse(const char *text, size_t length, struct fault_plan *plan)
{
	unsigned int given = 0;
	int result = 0;

	for (size_t at = 0; at <= length && result == 0;) {
		const char *const pair = text + at;
		const size_t comma = strcspn(pair, ",/"), equals = strcspn(pair, "=,/");
		const struct part key = { pair, equals };
		const struct part value = { pair + equals + 1,
					    comma > equals ? comma - equals - 1 : 0 };

		result = pair_parse(text, &key, &value, plan, &given);
		at += comma + 1;
	}
	if (result == 0 && !(given & SEED_BIT))
		return error_set(EINVAL,
				 "address fault:%.100s: found no seed, expected seed=NUMBER: the "
				 "same seed repeats the same faults",
				 text);
	return result;
}

int fault_plan_parse(const char *text, struct fault_plan *plan)
{
	const char *slash = strchr(text, '/');
	int result;

	*plan = (struct fault_plan){ 0 };
	if (!slash)
		return error_set(EINVAL,
				 "address fault:%.100s: found no / with an address, expected "
				 "fault:FAULTS/ADDRESS, as fault:seed=7,tear=0.01/shm:demo",
				 text);
	result = pairs_parse(text, (size_t)(slash - text), plan);
	if (result < 0)
		return result;
	if (strncmp(slash + 1, FAULT_SCHEME ":", strlen(FAULT_SCHEME ":")) == 0)
		return error_set(EINVAL,
				 "address fault:%.100s: found fault: twice, expected all faults "
				 "before the /",
				 text);
	plan->ops = fabric_undecorated(slash + 1, &plan->address);
	return plan->ops ? 0 : error_prefix(-EINVAL, "address fault:%.100s: ", text);
}
