/* SPDX-License-Identifier: Apache-2.0 */
/* The tree of a document: lookup and freeing. */
#include "config/yaml/tree.h"

#include <stdlib.h>
#include <string.h>

static void node_free(struct located_node *node)
{
	/* Depth is bounded by YAML_DEPTH_MAX. */
	for (struct located_node *child = node->first, *next; child; child = next) {
		next = child->next;
		node_free(child);
	}
	free((char *)(uintptr_t)node->text);
	free((char *)(uintptr_t)node->key);
	free(node);
}

void located_free(struct located_document *document)
{
	if (!document)
		return;
	if (document->root)
		node_free(document->root);
	free(document->origin);
	free(document);
}

const struct located_node *located_root(const struct located_document *document)
{
	return document ? document->root : NULL;
}

const char *located_origin(const struct located_document *document)
{
	return document->origin;
}

const struct located_node *located_get(const struct located_node *mapping, const char *key)
{
	if (!mapping || mapping->kind != YAML_MAPPING)
		return NULL;
	for (const struct located_node *child = mapping->first; child; child = child->next)
		if (strcmp(child->key, key) == 0)
			return child;
	return NULL;
}
