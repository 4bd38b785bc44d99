/* SPDX-License-Identifier: Apache-2.0 */
/* Any text gives errors, or a tree in which every node has its location. */
#include <string.h>

#include "config/yaml/located.h"
#include "tests/fuzz/fuzz.h"

/* Counts a node and all nodes below it. A duplicate key is an error already. */
static size_t walk(struct located_errors *errors, const struct located_node *node, unsigned depth)
{
	static const char *const words[] = { "one", "two", NULL };
	const char *text;
	int64_t number;
	bool flag;
	size_t count = 1, children = 0;
	unsigned int word;

	FUZZ_EXPECT(node->line >= 1 && node->column >= 1 && depth <= YAML_DEPTH_MAX);
	FUZZ_EXPECT((node->kind == YAML_SCALAR) == (node->text != NULL));
	for (const struct located_node *child = node->first; child; child = child->next) {
		FUZZ_EXPECT(child->parent == node);
		FUZZ_EXPECT((node->kind == YAML_MAPPING) == (child->key != NULL));
		if (child->key && errors->count == 0)
			FUZZ_EXPECT(located_get(node, child->key) == child);
		count += walk(errors, child, depth + 1);
		children++;
	}
	FUZZ_EXPECT(children == node->count);
	if (located_integer(errors, node, -5, 5, &number))
		FUZZ_EXPECT(number >= -5 && number <= 5);
	if (located_power(errors, node, 2, 64, &number))
		FUZZ_EXPECT(number >= 2 && number <= 64 && (number & (number - 1)) == 0);
	if (located_string(errors, node, 1, 9, &text))
		FUZZ_EXPECT(strlen(text) >= 1 && strlen(text) <= 9);
	if (located_word(errors, node, words, &word))
		FUZZ_EXPECT(strcmp(words[word], node->text) == 0);
	(void)located_boolean(errors, node, &flag);
	(void)located_keys(errors, node, words);
	return count;
}

FUZZ_TARGET(data, size)
{
	struct located_errors errors = { 0 };
	struct located_document *document =
		located_parse(&errors, (const char *)data, size, "fuzz");

	fuzz_deep = document != NULL;
	if (document)
		FUZZ_EXPECT(walk(&errors, located_root(document), 0) <= YAML_NODES_MAX);
	else
		FUZZ_EXPECT(errors.count > 0 && errors.text && errors.used > 0);
	located_errors_free(&errors);
	located_free(document);
	return 0;
}
