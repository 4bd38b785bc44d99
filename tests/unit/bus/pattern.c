/* SPDX-License-Identifier: Apache-2.0 */
/* Patterns match their definition: compared with it for every short name and pattern. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "bus/pattern.h"
#include "tickbus/error.h"
#include "tickbus/record.h"

#define LENGTH_MAX 6

/* The definition: `*` is any run of characters within one part, a last part `>` is one or more
 * parts. */
static bool matches(const char *pattern, const char *name)
{
	if (pattern[0] == '>')
		return name[0] != '\0';
	if (pattern[0] == '*')
		return matches(pattern + 1, name) ||
		       (name[0] != '\0' && name[0] != '.' && matches(pattern, name + 1));
	if (pattern[0] != name[0])
		return false;
	return pattern[0] == '\0' || matches(pattern + 1, name + 1);
}

/* Non-empty parts with single dots between. */
static bool has_parts(const char *text)
{
	const size_t length = strlen(text);

	return length > 0 && text[0] != '.' && text[length - 1] != '.' && !strstr(text, "..");
}

/* A `>` is the whole last part, or absent. No two `*` are adjacent. */
static bool is_pattern(const char *text)
{
	const char *rest = strchr(text, '>');

	return has_parts(text) && !strstr(text, "**") &&
	       (!rest || (rest[1] == '\0' && (rest == text || rest[-1] == '.')));
}

/* The text with this index over an alphabet; every text of up to LENGTH_MAX bytes has an index. */
static void text_of(unsigned int index, const char *alphabet, char text[LENGTH_MAX + 1])
{
	const unsigned int letters = (unsigned int)strlen(alphabet) + 1;
	size_t length = 0;

	for (; index > 0 && length < LENGTH_MAX; index /= letters)
		if (index % letters)
			text[length++] = alphabet[index % letters - 1];
	text[length] = '\0';
}

#define NAMES    729   /* 3^6: of 'a' and '.' */
#define PATTERNS 15625 /* 5^6: of 'a', '.', '*' and '>' */

Test(pattern, short_names_and_patterns_match_as_defined)
{
	static char names[NAMES][LENGTH_MAX + 1];
	unsigned int count = 0, patterns = 0, matched = 0;
	char pattern[LENGTH_MAX + 1];

	for (unsigned int i = 0; i < NAMES; i++) {
		text_of(i, "a.", names[count]);
		cr_assert_eq(pattern_name_check(names[count]) == 0, has_parts(names[count]),
			     "\"%s\"", names[count]);
		count += has_parts(names[count]);
	}
	for (unsigned int i = 0; i < PATTERNS; i++) {
		text_of(i, "a.*>", pattern);
		cr_assert_eq(pattern_check(pattern) == 0, is_pattern(pattern), "\"%s\"", pattern);
		if (!is_pattern(pattern))
			continue;
		patterns++;
		for (unsigned int n = 0; n < count; n++) {
			const bool expected = matches(pattern, names[n]);

			matched += expected;
			cr_assert_eq(pattern_match(pattern, names[n]), expected, "\"%s\" \"%s\"",
				     pattern, names[n]);
		}
		cr_assert_eq(pattern_is_name(pattern), pattern_name_check(pattern) == 0, "\"%s\"",
			     pattern);
	}
	cr_assert(count > 50 && patterns > 500 && matched > 5000, "%u names, %u patterns, %u match",
		  count, patterns, matched);
}

static const struct {
	const char *pattern, *name;
	bool match;
} cases[] = {
	{ "nasdaq.quote", "nasdaq.quote", true },
	{ "nasdaq.quote", "nasdaq.quotes", false },
	{ "nasdaq.quotes", "nasdaq.quote", false },
	{ "*.quote", "nasdaq.quote", true },
	{ "*.quote", "a.b.quote", false },
	{ "nasdaq.*", "nasdaq.quote.seq", false },
	{ "nasdaq.>", "nasdaq.quote.seq", true },
	{ "nasdaq.>", "nasdaq", false },
	{ ">", "nasdaq", true },
	{ "*", "nasdaq", true },
	{ "*", "nasdaq.quote", false },
	{ "n*q.*t*", "nasdaq.quote", true },
	{ "*a*a*a", "aabaabaaa", true },
	{ "*a*a*ab", "aabaabaaa", false },
	{ "a*.>", "abc.d", true },
	{ "*b.c", "abbb.c", true },
	{ "*", "a-b_c", true },
	{ "az09_-.*", "az09_-.zero", true },
};

Test(pattern, examples_of_the_manual_match)
{
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		cr_expect_eq(pattern_check(cases[i].pattern), 0, "%s", tb_error());
		cr_expect_eq(pattern_name_check(cases[i].name), 0, "%s", tb_error());
		cr_expect_eq(pattern_match(cases[i].pattern, cases[i].name), cases[i].match,
			     "\"%s\" \"%s\"", cases[i].pattern, cases[i].name);
	}
}

Test(pattern, adjacent_stars_are_refused_with_what_to_write)
{
	static const char *const patterns[] = { "**", "a.**", "**z", "a**b.>", "*.a***" };
	char expected[256];

	for (size_t i = 0; i < sizeof(patterns) / sizeof(patterns[0]); i++) {
		cr_expect_eq(pattern_check(patterns[i]), -EINVAL, "\"%s\"", patterns[i]);
		snprintf(expected, sizeof(expected),
			 "topic pattern: found \"%s\", expected a single '*' where \"**\" stands: "
			 "both match the same names",
			 patterns[i]);
		cr_expect_str_eq(tb_error(), expected);
	}
}

Test(pattern, wrong_name_or_pattern_is_refused_with_message)
{
	static const char *const names[] = { "A",  "a b", ".a",  "a.",      "a..b",
					     "a*", ">",   "a/b", "\xc3\xa9" };
	static const char *const patterns[] = { "a>", ">.a", "a.>.b", "A.*", ".>", "a..*", "a.>b" };
	char text[256], expected[512];

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		cr_expect_eq(pattern_name_check(names[i]), -EINVAL, "\"%s\"", names[i]);
		snprintf(expected, sizeof(expected),
			 "topic name: found \"%s\", expected parts of a-z, 0-9, '_', '-' with "
			 "single dots between",
			 names[i]);
		cr_expect_str_eq(tb_error(), expected);
	}
	for (size_t i = 0; i < sizeof(patterns) / sizeof(patterns[0]); i++) {
		cr_expect_eq(pattern_check(patterns[i]), -EINVAL, "\"%s\"", patterns[i]);
		snprintf(expected, sizeof(expected), "topic pattern: found \"%s\", expected ",
			 patterns[i]);
		cr_expect_eq(strncmp(tb_error(), expected, strlen(expected)), 0, "%s", tb_error());
	}
	cr_expect_eq(pattern_name_check(""), -EINVAL);
	cr_expect_str_eq(tb_error(), "topic name: found \"\", expected 1 to 63 bytes");
	memset(text, 'a', sizeof(text));
	text[TB_TOPIC_NAME_MAX] = '\0';
	cr_expect_eq(pattern_name_check(text), 0);
	text[TB_TOPIC_NAME_MAX] = 'a';
	text[TB_PATTERN_MAX] = '\0';
	cr_expect_eq(pattern_name_check(text), -EINVAL);
	snprintf(expected, sizeof(expected),
		 "topic name: found \"%.63s\" and more, expected 1 to 63 bytes", text);
	cr_expect_str_eq(tb_error(), expected);
	cr_expect_eq(pattern_check(text), 0);
	text[TB_PATTERN_MAX] = 'a'; /* without a NUL */
	cr_expect_eq(pattern_check(text), -EINVAL);
}
