/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/simulation/choice.h"

#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAMES 32

uint32_t choice_number(const char *name)
{
	return (uint32_t)strtoul(name + 1, NULL, 10);
}

uint32_t choice_bits(const struct choice *choice)
{
	uint32_t bits = 0;
	char name[CHOICE_TEXT];

	for (uint32_t i = 0; i < NAMES; i++) {
		snprintf(name, sizeof(name), "I%u", i);
		for (unsigned int at = 0; at < choice->count; at++)
			if (fnmatch(choice->texts[at], name, 0) == 0)
				bits |= UINT32_C(1) << i;
	}
	return bits;
}

bool choice_has(const struct choice *choice, const char *text)
{
	for (unsigned int at = 0; at < choice->count; at++)
		if (strcmp(choice->texts[at], text) == 0)
			return true;
	return false;
}

bool choice_add(struct choice *choice, const char *text)
{
	if (choice->count == CHOICE_MAX || choice_has(choice, text))
		return false;
	snprintf(choice->texts[choice->count++], CHOICE_TEXT, "%s", text);
	return true;
}

bool choice_remove(struct choice *choice, const char *text)
{
	for (unsigned int at = 0; at < choice->count; at++)
		if (strcmp(choice->texts[at], text) == 0) {
			memmove(choice->texts[at], choice->texts[at + 1],
				(choice->count - at - 1) * CHOICE_TEXT);
			choice->count--;
			return true;
		}
	return false;
}
