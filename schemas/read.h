/* SPDX-License-Identifier: Apache-2.0 */
/* From YAML to a schema: every rule of the language is checked here, and only here. */
#ifndef TICKBUS_SCHEMAS_READ_H
#define TICKBUS_SCHEMAS_READ_H

#include "schemas/schema.h"

/* A schema from a file. -EINVAL with a line for each error, -ENOENT and others: the file. */
int read_file(struct tb_schema **, const char *path);

#endif
