/* SPDX-License-Identifier: Apache-2.0 */
#include "bus/pattern.h"

#include <errno.h>
#include <string.h>

#include "bus/error.h"
#include "tickbus/record.h"

static bool name_byte(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
}

/* Accepts non-empty parts made of the allowed bytes. */
static int parts_check(const char *text, size_t max, const char *what, const char *wildcards)
{
	const size_t length = strnlen(text, max + 1);

	if (length == 0 || length > max)
		return error_set(EINVAL, "%s: found \"%.*s\"%s, expected 1 to %zu bytes", what,
				 (int)max, text, length > max ? " and more" : "", max);
	for (size_t i = 0; i < length; i++) {
		const bool edge = i == 0 || i == length - 1 || text[i - 1] == '.';

		if (text[i] == '.' ? edge : !name_byte(text[i]) && !strchr(wildcards, text[i]))
			return error_set(EINVAL,
					 "%s: found \"%s\", expected parts of a-z, 0-9, '_', '-'%s "
					 "with single dots between",
					 what, text,
					 *wildcards ? ", '*' (or '>' as the last part)" : "");
	}
	return 0;
}

int pattern_name_check(const char *name)
{
	return parts_check(name, TB_TOPIC_NAME_MAX, "topic name", "");
}

int pattern_check(const char *pattern)
{
	int result = parts_check(pattern, TB_PATTERN_MAX, "topic pattern", "*>");
	const char *rest;

	if (result < 0)
		return result;
	if (strstr(pattern, "**"))
		return error_set(EINVAL,
				 "topic pattern: found \"%s\", expected a single '*' where \"**\" "
				 "stands: both match the same names",
				 pattern);
	rest = strchr(pattern, '>');
	if (rest && (rest[1] != '\0' || (rest > pattern && rest[-1] != '.')))
		return error_set(EINVAL,
				 "topic pattern: found \"%s\", expected '>' as the whole last part",
				 pattern);
	return 0;
}

bool pattern_is_name(const char *pattern)
{
	return !strpbrk(pattern, "*>");
}

/* `*` matches greedily, with one position to return to: enough within a part. */
bool pattern_match(const char *pattern, const char *name)
{
	const char *star = NULL, *resume = NULL;

	while (*name) {
		if (*pattern == '>' && pattern[1] == '\0')
			return true;
		if (*pattern == '*') {
			star = ++pattern;
			resume = name;
		} else if (*pattern == *name) {
			if (*name == '.')
				star = NULL;
			pattern++;
			name++;
		} else if (star && *resume != '.') {
			pattern = star;
			name = ++resume;
		} else {
			return false;
		}
	}
	if (*pattern == '*')
		pattern++;
	return *pattern == '\0';
}
