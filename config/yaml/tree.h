/* SPDX-License-Identifier: Apache-2.0 */
/* A document: the tree that document.c builds, and other files read. */
#ifndef TICKBUS_CONFIG_YAML_TREE_H
#define TICKBUS_CONFIG_YAML_TREE_H

#include "config/yaml/located.h"

struct located_document {
	char *origin; /* the file's name, as given */
	struct located_node *root;
	unsigned int nodes;
};

#endif
