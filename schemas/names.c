/* SPDX-License-Identifier: Apache-2.0 */
/* Names that a schema may use: valid in C and C++ programs, as CSV columns and as JSON keys. */
#include "schemas/schema.h"

#include <stdbool.h>
#include <string.h>

#include "bus/bounds.h"

/* Lower-case keywords of C and C++, which cannot name a member of a struct. Then macros of Linux
 * compilers and headers that would replace a member's name. */
static const char *const reserved_in_c[] = {
	/* C */
	"auto",
	"break",
	"case",
	"char",
	"const",
	"continue",
	"default",
	"do",
	"double",
	"else",
	"enum",
	"extern",
	"float",
	"for",
	"goto",
	"if",
	"inline",
	"int",
	"long",
	"register",
	"restrict",
	"return",
	"short",
	"signed",
	"sizeof",
	"static",
	"struct",
	"switch",
	"typedef",
	"union",
	"unsigned",
	"void",
	"volatile",
	"while",
	"alignas",
	"alignof",
	"bool",
	"constexpr",
	"false",
	"nullptr",
	"static_assert",
	"thread_local",
	"true",
	"typeof",
	"typeof_unqual",
	"asm",
	"complex",
	"imaginary",
	"noreturn",
	/* C++ */
	"and",
	"and_eq",
	"bitand",
	"bitor",
	"catch",
	"char8_t",
	"char16_t",
	"char32_t",
	"class",
	"co_await",
	"co_return",
	"co_yield",
	"compl",
	"concept",
	"consteval",
	"constinit",
	"const_cast",
	"decltype",
	"delete",
	"dynamic_cast",
	"explicit",
	"export",
	"friend",
	"mutable",
	"namespace",
	"new",
	"noexcept",
	"not",
	"not_eq",
	"operator",
	"or",
	"or_eq",
	"private",
	"protected",
	"public",
	"reinterpret_cast",
	"requires",
	"static_cast",
	"template",
	"this",
	"throw",
	"try",
	"typeid",
	"typename",
	"using",
	"virtual",
	"wchar_t",
	"xor",
	"xor_eq",
	/* macros */
	"errno",
	"linux",
	"unix",
};

/* Columns that every row begins with, and the names that mark events. */
static const char *const reserved_in_rows[] = {
	"sequence", "time_ns", "instrument", "kind", "topic", "event",
};

static bool names_in(const char *name, const char *const *list, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (!strcmp(name, list[i]))
			return true;
	return false;
}

#define NAMES_IN(name, list) names_in(name, list, sizeof(list) / sizeof((list)[0]))

const char *names_check(const char *name)
{
	size_t length = strlen(name);

	if (length < 1 || length > TB_SCHEMA_NAME_MAX || name[0] < 'a' || name[0] > 'z' ||
	    strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_") != length)
		return "a name of 1 to " BOUND_TEXT(
			TB_SCHEMA_NAME_MAX) " of a-z, 0-9 and _ that begins with a letter";
	if (NAMES_IN(name, reserved_in_c))
		return "a name that is no keyword of C or C++";
	return NULL;
}

const char *names_check_field(const char *name)
{
	const char *expected = names_check(name);

	if (!expected && NAMES_IN(name, reserved_in_rows))
		return "a name that rows do not use already: sequence, time_ns, instrument, kind, "
		       "topic, event";
	return expected;
}
