/* SPDX-License-Identifier: Apache-2.0 */
/* Looks up, checks and converts values of nodes. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/yaml/located.h"

#define FOUND_MAX  80
#define WORD_BYTES 64 /* of words that are compared to find a similar word */

const struct located_node *located_need(struct located_errors *errors,
					const struct located_node *mapping, const char *key,
					const char *expected)
{
	const struct located_node *value = located_get(mapping, key);

	if (!value && mapping && mapping->kind == YAML_MAPPING)
		located_error(errors, mapping, "%s: found nothing, expected %s", key, expected);
	return value;
}

static size_t least_of(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* Counts letters that are changed, missing, extra, or swapped with the next. */
static size_t edits_between(const char *a, const char *b)
{
	uint8_t table[WORD_BYTES + 1][WORD_BYTES + 1];
	const size_t height = strlen(a), width = strlen(b);

	if (height > WORD_BYTES || width > WORD_BYTES)
		return SIZE_MAX;
	for (size_t i = 0; i <= height; i++)
		for (size_t j = 0; j <= width; j++) {
			if (i == 0 || j == 0) {
				table[i][j] = (uint8_t)(i + j);
				continue;
			}
			table[i][j] = (uint8_t)least_of(
				least_of(table[i - 1][j], table[i][j - 1]) + 1u,
				table[i - 1][j - 1] + (a[i - 1] != b[j - 1] ? 1u : 0u));
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
				table[i][j] =
					(uint8_t)least_of(table[i][j], table[i - 2][j - 2] + 1u);
		}
	return table[height][width];
}

size_t located_distance(const char *text, const char *known)
{
	const size_t edits = edits_between(text, known), length = strlen(text);
	const size_t most = length < 2 ? 0 : length < 5 ? 1 : 2;

	return edits <= most ? edits : SIZE_MAX;
}

static const char *nearest(const char *text, const char *const *known)
{
	const char *best = NULL;
	size_t least = SIZE_MAX;

	for (; *known; known++) {
		const size_t edits = located_distance(text, *known);

		if (edits < least) {
			least = edits;
			best = *known;
		}
	}
	return best;
}

static bool listed(const char *key, const char *const *known)
{
	for (; *known; known++)
		if (strcmp(key, *known) == 0)
			return true;
	return false;
}

/* "key:value" without a space is a text, or a key without a value. "-item" is a text too. */
static const char *space_missing(const struct located_node *node)
{
	if (node->kind != YAML_SCALAR || node->quoted)
		return "";
	if (node->text[0] == '-' && node->text[1])
		return ": put a space after the dash";
	return strchr(node->text, ':') ? ": put a space after the colon" : "";
}

const char *located_hint(const struct located_node *node)
{
	const struct located_node *only = node && node->kind == YAML_MAPPING ? node->first : NULL;

	if (only && !only->next && only->kind == YAML_SCALAR && !only->quoted && !*only->text)
		return ": put a text that ends with ':' in quotes";
	return "";
}

static void key_unknown(struct located_errors *errors, const struct located_node *child,
			const char *const *known)
{
	/* A suggestion that is not printed would cost the most of all. */
	const char *meant = errors->count < YAML_ERRORS_MAX ? nearest(child->key, known) : NULL;
	struct located_node at_key = *child;

	at_key.line = child->key_line;
	at_key.column = child->key_column;
	if (strchr(child->key, ':') && child->kind == YAML_SCALAR && !*child->text)
		located_error(errors, &at_key, "found an unknown key: put a space after the colon");
	else if (meant)
		located_error(errors, &at_key, "found an unknown key, did you mean %s?", meant);
	else
		located_error(errors, &at_key, "found an unknown key");
}

bool located_keys_besides(struct located_errors *errors, const struct located_node *node,
			  const char *const *known, const char *const *others)
{
	char found[FOUND_MAX];

	if (!node)
		return false;
	if (node->kind != YAML_MAPPING) {
		located_error(errors, node, "found %s, expected a mapping%s",
			      located_found(node, found, sizeof(found)), space_missing(node));
		return false;
	}
	for (const struct located_node *child = node->first; child; child = child->next)
		if (!listed(child->key, known) && !listed(child->key, others))
			key_unknown(errors, child, known);
	return true;
}

bool located_keys(struct located_errors *errors, const struct located_node *node,
		  const char *const *known)
{
	return located_keys_besides(errors, node, known, &(const char *){ NULL });
}

static const char *dash_missing(const struct located_node *node)
{
	const struct located_node *first = node->kind == YAML_MAPPING ? node->first : NULL;

	if (first && first->key[0] == '-' && first->key[1])
		return ": put a space after the dash";
	return node->kind == YAML_SCALAR && node->text[0] == '-' ? space_missing(node) : "";
}

bool located_is_sequence(struct located_errors *errors, const struct located_node *node,
			 const char *expected)
{
	char found[FOUND_MAX];

	if (!node)
		return false;
	if (node->kind == YAML_SEQUENCE)
		return true;
	located_error(errors, node, "found %s, expected %s%s",
		      located_found(node, found, sizeof(found)), expected, dash_missing(node));
	return false;
}

/* Distinguishes "5" from 5 in an error. */
static const char *in_quotes(const struct located_node *node)
{
	return node->kind == YAML_SCALAR && node->quoted ? " in quotes" : "";
}

/* Refuses octal numbers, signs other than minus, and text after the digits. */
static bool number_parse(const struct located_node *node, int64_t low, int64_t high,
			 int64_t *number)
{
	const char *digits;
	char *end;

	if (node->kind != YAML_SCALAR || node->quoted)
		return false;
	digits = node->text + (node->text[0] == '-');
	if (digits[0] < '0' || digits[0] > '9' || (digits[0] == '0' && digits[1]))
		return false;
	errno = 0;
	*number = strtoll(node->text, &end, 10);
	return *end == '\0' && errno == 0 && *number >= low && *number <= high;
}

static bool leading_zero(const struct located_node *node)
{
	const char *text = node->kind == YAML_SCALAR && !node->quoted ? node->text : "";

	text += text[0] == '-';
	return text[0] == '0' && text[1] && strspn(text, "0123456789") == strlen(text);
}

static bool number_take(struct located_errors *errors, const struct located_node *node, bool power,
			int64_t low, int64_t high, int64_t *value)
{
	char found[FOUND_MAX];
	int64_t number;

	if (!node)
		return false;
	if (number_parse(node, low, high, &number) && (!power || (number & (number - 1)) == 0)) {
		*value = number;
		return true;
	}
	located_error(errors, node, "found %s%s, expected a %s from %" PRId64 " to %" PRId64 "%s",
		      located_found(node, found, sizeof(found)), in_quotes(node),
		      power ? "power of two" : "whole number", low, high,
		      leading_zero(node) ? ", without a 0 in front" : "");
	return false;
}

bool located_integer(struct located_errors *errors, const struct located_node *node, int64_t low,
		     int64_t high, int64_t *value)
{
	return number_take(errors, node, false, low, high, value);
}

bool located_power(struct located_errors *errors, const struct located_node *node, int64_t low,
		   int64_t high, int64_t *value)
{
	return number_take(errors, node, true, low, high, value);
}

bool located_boolean(struct located_errors *errors, const struct located_node *node, bool *value)
{
	char found[FOUND_MAX];

	if (!node)
		return false;
	if (node->kind == YAML_SCALAR && !node->quoted &&
	    (strcmp(node->text, "true") == 0 || strcmp(node->text, "false") == 0)) {
		*value = node->text[0] == 't';
		return true;
	}
	located_error(errors, node, "found %s%s, expected true or false",
		      located_found(node, found, sizeof(found)), in_quotes(node));
	return false;
}

bool located_string(struct located_errors *errors, const struct located_node *node,
		    size_t min_bytes, size_t max_bytes, const char **value)
{
	char found[FOUND_MAX];

	if (!node)
		return false;
	if (node->kind == YAML_SCALAR && strlen(node->text) >= min_bytes &&
	    strlen(node->text) <= max_bytes) {
		*value = node->text;
		return true;
	}
	located_error(errors, node, "found %s, expected a text of %zu to %zu bytes%s",
		      located_found(node, found, sizeof(found)), min_bytes, max_bytes,
		      located_hint(node));
	return false;
}

bool located_word(struct located_errors *errors, const struct located_node *node,
		  const char *const *words, unsigned int *value)
{
	char found[FOUND_MAX], list[512] = "";
	const char *meant;
	size_t used = 0;

	if (!node)
		return false;
	for (unsigned int i = 0; words[i]; i++) {
		if (node->kind == YAML_SCALAR && strcmp(node->text, words[i]) == 0) {
			*value = i;
			return true;
		}
		if (used < sizeof(list))
			used += (size_t)snprintf(list + used, sizeof(list) - used, "%s%s",
						 i == 0         ? ""
						 : words[i + 1] ? ", "
								: " or ",
						 words[i]);
	}
	meant = node->kind == YAML_SCALAR && errors->count < YAML_ERRORS_MAX
			? nearest(node->text, words)
			: NULL;
	located_error(errors, node, "found %s, expected %s%s%s%s",
		      located_found(node, found, sizeof(found)), list,
		      meant ? "; did you mean " : "", meant ? meant : "", meant ? "?" : "");
	return false;
}
