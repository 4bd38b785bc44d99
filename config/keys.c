/* SPDX-License-Identifier: Apache-2.0 */
/* Reads keys of the file into structures. */
#include "config/keys.h"

#include <assert.h>
#include <string.h>

#define KNOWN_MAX 64
#define FOUND_MAX 80

/* Lists the names of all keys, ended by NULL. */
static void names_list(const struct key *const *tables, const char *names[KNOWN_MAX + 1])
{
	size_t count = 0;

	for (; *tables; tables++)
		for (const struct key *key = *tables; key->name; key++) {
			assert(count < KNOWN_MAX);
			names[count++] = key->name;
		}
	names[count] = NULL;
}

bool keys_known_besides(struct reading *reading, const struct located_node *node,
			const struct key *const *tables, const struct key *const *others)
{
	const char *known[KNOWN_MAX + 1], *besides[KNOWN_MAX + 1];

	names_list(tables, known);
	names_list(others, besides);
	return located_keys_besides(&reading->errors, node, known, besides);
}

bool keys_known(struct reading *reading, const struct located_node *node,
		const struct key *const *tables)
{
	return keys_known_besides(reading, node, tables, &(const struct key *){ NULL });
}

static const struct key *key_find(const struct key *table, const char *name)
{
	for (const struct key *key = table; key->name; key++)
		if (strcmp(key->name, name) == 0)
			return key;
	return NULL;
}

static const struct key *key_of(const struct key *const *tables, const char *name, size_t *table)
{
	const struct key *key = NULL;

	for (*table = 0; tables[*table] && !key; (*table)++)
		key = key_find(tables[*table], name);
	*table -= key != NULL;
	return key;
}

void keys_foreign(struct reading *reading, const struct located_node *node,
		  const struct key *const *tables, const struct key *const *others,
		  const char *const *types, const char *own)
{
	for (const struct located_node *child = node->first; child; child = child->next) {
		struct located_node at_key = *child;
		size_t table, other;

		at_key.line = child->key_line;
		at_key.column = child->key_column;
		if (!key_of(tables, child->key, &table) && key_of(others, child->key, &other))
			located_error(&reading->errors, &at_key,
				      "found a key of type %s alone, expected keys of type %s",
				      types[other], own);
	}
}

static void integer_read(struct reading *reading, const struct located_node *node,
			 const struct key *key, void *field)
{
	int64_t value;
	int32_t narrow;

	if (!(key->kind == KEY_POWER ? located_power : located_integer)(
		    &reading->errors, node, key->low, key->high, &value))
		return;
	narrow = (int32_t)value; /* a uint32_t keeps its bits */
	assert(key->bytes == sizeof(value) || key->bytes == sizeof(narrow));
	if (key->bytes == sizeof(value))
		memcpy(field, &value, sizeof(value));
	else
		memcpy(field, &narrow, sizeof(narrow));
}

static void word_read(struct reading *reading, const struct located_node *node,
		      const struct key *key, void *field)
{
	unsigned int word;

	assert(key->bytes == sizeof(word));
	if (!located_word(&reading->errors, node, key->words, &word))
		return;
	word++;
	memcpy(field, &word, sizeof(word));
}

static void text_read(struct reading *reading, const struct located_node *node,
		      const struct form *form, void *field)
{
	char found[FOUND_MAX];

	reading->reason[0] = '\0';
	reading->shown = NULL;
	if (node->kind == YAML_SCALAR && form->read(reading, node->text, field))
		return;
	/* A reason that says what was expected stands alone. */
	if (strstr(reading->reason, ", expected ")) {
		located_error(&reading->errors, node, "%s%s", reading->reason, located_hint(node));
		return;
	}
	located_error(&reading->errors, node, "found %s, expected %s%s%s%s",
		      reading->shown ? reading->shown : located_found(node, found, sizeof(found)),
		      form->expected, reading->reason[0] ? ": " : "", reading->reason,
		      located_hint(node));
}

static bool listed(const char *const *texts, size_t count, const char *text)
{
	for (size_t i = 0; i < count; i++)
		if (strcmp(texts[i], text) == 0)
			return true;
	return false;
}

static void list_read(struct reading *reading, const struct located_node *node,
		      const struct key *key, struct settings_list *list)
{
	struct settings_location *locations;
	const char **texts;

	if (!located_is_sequence(&reading->errors, node, "a list"))
		return;
	if (node->count < key->low || node->count > key->high) {
		located_error(&reading->errors, node, "found %u entries, expected %d to %d",
			      node->count, (int)key->low, (int)key->high);
		return;
	}
	texts = reading_keep(reading, node->count * sizeof(*texts));
	locations = reading_keep(reading, node->count * sizeof(*locations));
	if (!texts || !locations)
		return;
	list->texts = texts;
	list->locations = locations;
	for (const struct located_node *child = node->first; child; child = child->next) {
		const char *text = NULL;

		text_read(reading, child, key->form, &text);
		if (text && listed(texts, list->count, text))
			located_error(&reading->errors, child,
				      "found \"%s\" again, expected each once", text);
		else if (text) {
			locations[list->count] =
				(struct settings_location){ child->line, child->column,
							    child->index };
			texts[list->count++] = text;
		}
	}
}

static void value_read(struct reading *reading, const struct located_node *node,
		       const struct key *key, void *field)
{
	switch (key->kind) {
	case KEY_INTEGER:
	case KEY_POWER:
		integer_read(reading, node, key, field);
		break;
	case KEY_BOOLEAN:
		located_boolean(&reading->errors, node, field);
		break;
	case KEY_WORD:
		word_read(reading, node, key, field);
		break;
	case KEY_TEXT:
		text_read(reading, node, key->form, field);
		break;
	case KEY_LIST:
		list_read(reading, node, key, field);
		break;
	case KEY_MAPPING:
		if (keys_known(reading, node, (const struct key *const[]){ key->keys, NULL }))
			keys_read(reading, node, key->keys, field);
		break;
	case KEY_ELSEWHERE:
		break;
	}
}

/* Reads a missing key: its default, or an empty value, for which the key's kind reports the error.
 * The error's position is that of the mapping. */
static void default_read(struct reading *reading, const struct located_node *mapping,
			 const struct key *key, void *field)
{
	struct located_node node = *mapping, only;

	node.key = key->name;
	node.parent = mapping;
	node.kind = YAML_SCALAR;
	node.text = key->default_text ? key->default_text : "";
	node.quoted = false;
	node.first = NULL;
	node.count = 0;
	if (key->kind == KEY_MAPPING) {
		node.kind = YAML_MAPPING;
	} else if (key->kind == KEY_LIST) {
		only = node;
		only.next = NULL;
		only.parent = &node;
		node.kind = YAML_SEQUENCE;
		node.first = key->default_text ? &only : NULL;
		node.count = key->default_text ? 1 : 0;
	}
	value_read(reading, &node, key, field);
}

void keys_read(struct reading *reading, const struct located_node *mapping, const struct key *table,
	       void *structure)
{
	for (const struct key *key = table; key->name; key++) {
		const struct located_node *node = located_get(mapping, key->name);
		void *field = (char *)structure + key->offset;

		if (node)
			value_read(reading, node, key, field);
		else if (!key->optional)
			default_read(reading, mapping, key, field);
	}
}

void keys_read_given(struct reading *reading, const struct located_node *mapping,
		     const struct key *const *tables, void *structure)
{
	for (const struct located_node *child = mapping->first; child; child = child->next) {
		size_t table;
		const struct key *key = key_of(tables, child->key, &table);

		if (key)
			value_read(reading, child, key, (char *)structure + key->offset);
	}
}
