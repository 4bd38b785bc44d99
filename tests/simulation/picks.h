/* SPDX-License-Identifier: Apache-2.0 */
/* A list of chosen instruments, as a subscriber gives it to the library. Instruments have the names
 * I0, I1 ... So a set of names is a set of bits. */
#ifndef TICKBUS_TESTS_SIMULATION_PICKS_H
#define TICKBUS_TESTS_SIMULATION_PICKS_H

#include <stdbool.h>
#include <stdint.h>

#define PICKS_MAX  16
#define PICKS_TEXT 8

struct picks {
	unsigned int count;
	char texts[PICKS_MAX][PICKS_TEXT]; /* names and patterns */
};

/* The number in a name. */
uint32_t picks_number(const char *name);
/* A bit for each name that the list chooses. */
uint32_t picks_bits(const struct picks *);
/* Whether the list has this text. */
bool picks_has(const struct picks *, const char *text);
/* Returns whether the list changed. */
bool picks_add(struct picks *, const char *text);
bool picks_remove(struct picks *, const char *text);

#endif
