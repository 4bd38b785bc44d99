/* SPDX-License-Identifier: Apache-2.0 */
/* Texts of the built-in schemas. `generate` prints these tables from the YAML files of this folder.
 */
#ifndef TICKBUS_SCHEMAS_BUILTIN_H
#define TICKBUS_SCHEMAS_BUILTIN_H

#include <stddef.h>

struct builtin {
	const char *text; /* canonical */
	size_t length;
};

extern const char *const builtin_names[]; /* ended by NULL */
extern const struct builtin builtin_texts[];

#endif
