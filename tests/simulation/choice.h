/* SPDX-License-Identifier: Apache-2.0 */
/* A list of chosen instruments, as a subscriber gives it to the library. Instruments have the names
 * I0, I1 ... So a set of names is a set of bits. */
#ifndef TICKBUS_TESTS_SIMULATION_CHOICE_H
#define TICKBUS_TESTS_SIMULATION_CHOICE_H

#include <stdbool.h>
#include <stdint.h>

#define CHOICE_MAX  8
#define CHOICE_TEXT 8

struct choice {
	unsigned int count;
	char texts[CHOICE_MAX][CHOICE_TEXT]; /* names and patterns */
};

/* The number in a name. */
uint32_t choice_number(const char *name);
/* A bit for each name that the list chooses. */
uint32_t choice_bits(const struct choice *);
/* Whether the list has this text. */
bool choice_has(const struct choice *, const char *text);
/* Returns whether the list changed. */
bool choice_add(struct choice *, const char *text);
bool choice_remove(struct choice *, const char *text);

#endif
