/* SPDX-License-Identifier: Apache-2.0 */
/* Topic names are parts with dots between. In a pattern, `*` stands for any run of characters
 * within one part, and a last part `>` for one or more parts. Adjacent stars are refused: they
 * match what a single star matches, and each costs a step for each topic that a client asks about.
 */
#ifndef TICKBUS_BUS_PATTERN_H
#define TICKBUS_BUS_PATTERN_H

#include <stdbool.h>

/* 0, or -EINVAL with a message. */
int pattern_name_check(const char *name);
int pattern_check(const char *pattern);

/* True if the pattern has no wildcard: it matches one name only. */
bool pattern_is_name(const char *pattern);

bool pattern_match(const char *pattern, const char *name);

#endif
