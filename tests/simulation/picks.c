/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/simulation/picks.h"

#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAMES 32

uint32_t picks_number(const char *name)
{
	return (uint32_t)strtoul(name + 1, NULL, 10);
}

uint32_t picks_bits(const struct picks *picks)
{
	uint32_t bits = 0;
	char name[PICKS_TEXT];

	for (uint32_t i = 0; i < NAMES; i++) {
		snprintf(name, sizeof(name), "I%u", i);
		for (unsigned int at = 0; at < picks->count; at++)
			if (fnmatch(picks->texts[at], name, 0) == 0)
				bits |= UINT32_C(1) << i;
	}
	return bits;
}

bool picks_has(const struct picks *picks, const char *text)
{
	for (unsigned int at = 0; at < picks->count; at++)
		if (strcmp(picks->texts[at], text) == 0)
			return true;
	return false;
}

bool picks_add(struct picks *picks, const char *text)
{
	if (picks->count == PICKS_MAX || picks_has(picks, text))
		return false;
	snprintf(picks->texts[picks->count++], PICKS_TEXT, "%s", text);
	return true;
}

bool picks_remove(struct picks *picks, const char *text)
{
	for (unsigned int at = 0; at < picks->count; at++)
		if (strcmp(picks->texts[at], text) == 0) {
			memmove(picks->texts[at], picks->texts[at + 1],
				(picks->count - at - 1) * PICKS_TEXT);
			picks->count--;
			return true;
		}
	return false;
}
