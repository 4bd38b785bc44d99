/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a schema from YAML. Every rule of the language is checked here, and only here. */
#ifndef TICKBUS_SCHEMAS_READ_H
#define TICKBUS_SCHEMAS_READ_H

#include "schemas/schema.h"

/* Reads a file. -EINVAL with a line for each error; -ENOENT and others from opening the file. */
int read_file(struct tb_schema **, const char *path);

#endif
