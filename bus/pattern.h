/* SPDX-License-Identifier: Apache-2.0 */
/* Topic names, parts with dots between, and patterns over them: `*` stands for any run of
 * characters within one part, a last part `>` for one or more parts. */
#ifndef TICKBUS_BUS_PATTERN_H
#define TICKBUS_BUS_PATTERN_H

#include <stdbool.h>

/* 0, or -EINVAL with words. */
int pattern_name_check(const char *name);
int pattern_check(const char *pattern);

/* Whether the pattern can only ever match one name. */
bool pattern_is_name(const char *pattern);

bool pattern_match(const char *pattern, const char *name);

#endif
