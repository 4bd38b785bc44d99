/* SPDX-License-Identifier: Apache-2.0 */
/* Prints keys as YAML that reads back to the same settings. */
#include <inttypes.h>
#include <string.h>

#include "config/keys.h"

/* The reader accepts UTF-8 without control characters other than newline and tab. */
void keys_print_text(FILE *file, const char *text)
{
	fputc('"', file);
	for (; *text; text++)
		if (*text == '\n')
			fputs("\\n", file);
		else if (*text == '\t')
			fputs("\\t", file);
		else
			fprintf(file, "%s%c", *text == '"' || *text == '\\' ? "\\" : "", *text);
	fputc('"', file);
}

static int64_t integer_of(const struct key *key, const void *field)
{
	int64_t value;
	int32_t narrow;

	if (key->bytes == sizeof(value)) {
		memcpy(&value, field, sizeof(value));
		return value;
	}
	memcpy(&narrow, field, sizeof(narrow));
	return key->low < 0 ? narrow : (int64_t)(uint32_t)narrow;
}

static void list_print(FILE *file, const struct settings_list *list)
{
	fputc('[', file);
	for (size_t i = 0; i < list->count; i++) {
		fputs(i ? ", " : " ", file);
		keys_print_text(file, list->texts[i]);
	}
	fputs(list->count ? " ]" : "]", file);
}

static void value_print(FILE *file, const struct key *key, const void *field)
{
	char text[FORMS_TEXT_BYTES];
	unsigned int word;

	switch (key->kind) {
	case KEY_INTEGER:
	case KEY_POWER:
		fprintf(file, "%" PRId64, integer_of(key, field));
		break;
	case KEY_BOOLEAN:
		fputs(*(const bool *)field ? "true" : "false", file);
		break;
	case KEY_WORD:
		memcpy(&word, field, sizeof(word));
		fputs(key->words[word - 1], file);
		break;
	case KEY_TEXT:
		if (key->form->write)
			key->form->write(field, text, sizeof(text));
		keys_print_text(file, key->form->write ? text : *(const char *const *)field);
		break;
	case KEY_LIST:
		list_print(file, field);
		break;
	case KEY_MAPPING:
	case KEY_ELSEWHERE:
		break;
	}
}

/* An optional key is an integer from 1, or a text. An optional boolean has a default that depends
 * on other keys, so it is always printed. */
static bool absent(const struct key *key, const void *field)
{
	if (key->kind == KEY_ELSEWHERE)
		return true;
	if (!key->optional || key->kind == KEY_BOOLEAN)
		return false;
	return key->kind == KEY_TEXT ? !*(const char *const *)field : integer_of(key, field) == 0;
}

void keys_print(FILE *file, const struct key *table, const void *structure, const char *first,
		const char *rest)
{
	const char *indent = first;
	char deeper[32];

	snprintf(deeper, sizeof(deeper), "%s  ", rest);
	for (const struct key *key = table; key->name; key++) {
		const void *field = (const char *)structure + key->offset;

		if (absent(key, field))
			continue;
		fprintf(file, "%s%s:%s", indent, key->name, key->kind == KEY_MAPPING ? "\n" : " ");
		if (key->kind == KEY_MAPPING)
			keys_print(file, key->keys, field, deeper, deeper);
		else
			value_print(file, key, field);
		if (key->kind != KEY_MAPPING)
			fputc('\n', file);
		indent = rest;
	}
}
